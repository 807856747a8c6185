# Publishes messages of QoS 1 and 2 in turn, as fast as it can.

import sys

import board
import inflight
from inflight import Journal

_BODY = '{"seq":%d,"epoch":%d,"fill":"' + 250 * "x" + '"}'

_found = None


def prepare():
    # What takes the larger part of a short life and is the same in each: loading what finds and mounts a journal, and
    # finding the journal's blocks. That depends on the file system alone, which no copy may change.
    global _found
    __import__("inflight.pinning")
    pin = inflight.pinning.pin

    def spy(*where):
        global _found
        _found = pin(*where)
        return _found

    inflight.pinning.pin = spy
    board.journal_flash()  # it forgets the room in which that was found
    for module in ("recovery", "sector_reader", "sectors", "contents", "finishing"):
        __import__("inflight." + module)


class _Pinning:
    # Stands in for that room.
    @staticmethod
    def pin(*where):
        return _found


def journal():
    sys.modules["inflight.pinning"] = inflight.pinning = _Pinning
    return Journal(board.journal_flash())


def run(client, journal, topic, accepted, online):
    # Offline it publishes into the flash alone, until that is full.
    if online:
        client.connect()  # so that power is cut while messages are delivered
    while True:
        seq = journal.next_seq
        qos = 1 + seq % 2
        try:
            client.publish(topic, _BODY % (seq, journal.epoch), qos)
            accepted(seq, qos, topic)
        except inflight.OutboxFull:
            online = True
        if online:
            client.run_for(5)


def plain(settings):
    client = inflight.Client(settings.host, "plain", port=settings.port)
    client.connect()
    n = 0
    while True:
        n += 1
        client.publish("plain/n", '{"n":%d}' % n)
        client.run_for(20)
