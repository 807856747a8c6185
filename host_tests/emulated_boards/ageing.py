"""A board whose journal has been in use for long, made here in no time: the same code writes it on this machine."""

import json

from inflight import Client, Journal
from inflight.journal.journal import DONE, OUT
from inflight_tools.boards.images.filesystem import BLOCK
from nor import NorFlash


def aged(flash, name, topic):
    """`flash`, whose journal is new, after the ring has been filled by the client `name`: the next sector to be opened
    is the last, and the oldest holds two messages to `topic` that nobody has delivered yet. Returns that, and what
    was accepted: {sequence number: QoS}."""
    places, ring = ring_of(flash)
    journal = Journal(ring)
    client = Client("nowhere", name, journal)  # which never connects
    accepted = {}
    for qos in (1, 2):
        accepted[journal.next_seq] = qos
        client.publish(topic, json.dumps({"seq": journal.next_seq, "epoch": journal.epoch}), qos)
    half = BLOCK // 2  # more than that, with its frame: each takes a sector. The last leaves space for one message
    for size in [half] * (len(places) - 2) + [BLOCK - 500]:
        journal.mark(journal.append(OUT, 1, bytes(size), size), DONE)
    return with_ring(flash, places, ring), accepted


def ring_of(flash):
    """Returns (places of the journal's blocks in the ring's order, a model of them)."""
    places = [at for at in range(0, len(flash), BLOCK) if flash.startswith(b"IFJ", at)]
    places.sort(key=lambda at: int.from_bytes(flash[at + 8 : at + 12], "little"))
    return places, model_of(flash, places)


def model_of(flash, places):
    """A model of the blocks of `flash` at `places`, as a ring in that order."""
    ring = NorFlash(len(places), BLOCK)
    ring.data = bytearray().join(flash[at : at + BLOCK] for at in places)
    return ring


def with_ring(flash, places, ring):
    """`flash` with the blocks of `ring` at `places`."""
    left = bytearray(flash)
    for i, at in enumerate(places):
        left[at : at + BLOCK] = ring.data[i * BLOCK : (i + 1) * BLOCK]
    return bytes(left)
