# What the journal knows of the messages that the broker has not completed. Loaded when somebody asks.

import inflight.packet as packet

from ..compat import const
from ..journal.records import OUT
from ..states import RUNNING

_START = const(7)  # bytes of a record up to the length of the topic, at most


def message_at(session, address):
    """Returns (Message ID, sequence number, topic, size of the packet in bytes, QoS) of the record at `address`, which
    was just found. Raises OSError if it was damaged."""
    journal = session.journal
    journal.check(address)
    mid = journal.found_mid
    seq = journal.found_seq
    start = bytearray(_START)
    at = journal.read(address, 0, start)
    size = packet.length(start, at)
    qos = start[at] >> 1 & 3
    topic = at + 1
    while start[topic] & 0x80:
        topic += 1
    topic += 1
    name = bytearray(start[topic] << 8 | start[topic + 1])
    journal.read(address, topic + 2 - at, name)
    size = session.packet_size(address, size)
    return mid, seq, str(name, "utf-8"), size, qos


def messages(client):
    """See Base.pending_messages(). Each message is one operation: between them everything may change."""
    seq = 0
    while True:
        client._begin(RUNNING)
        try:
            found = next_message(client.session, seq)
        finally:
            client._guard &= ~RUNNING
        if not found:
            return
        yield found
        seq = found[1] + 1


def next_message(session, seq):
    """Returns the pending message of this sequence number, or the next one behind it; None: there is none."""
    journal = session.journal
    address = journal.find(OUT, seq) if journal else -1
    if address < 0:
        return None
    found = message_at(session, address)
    if session.row_at(address) >= 0:
        return found + ("in flight",)
    return found + ("waiting" if found[1] >= session.seq else "set aside",)
