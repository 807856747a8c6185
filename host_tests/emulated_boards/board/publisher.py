# Publishes messages of QoS 1 and 2 in turn, as fast as it can; connected, not more than the broker takes meanwhile.

from micropython import const

import harness
import inflight

_WAITING = const(8)
_BODY = '{"seq":%d,"epoch":%d,"fill":"' + 250 * "x" + '"}'


def run(client, journal, topic, accepted, settings, online):
    # Offline it publishes into the flash alone, until that is full.
    if online:
        harness.join(settings)
        client.connect()  # so that power is cut while messages are delivered
    while True:
        while online and client.pending > _WAITING:
            client.run_for(5)
        seq = journal.next_seq
        qos = 1 + seq % 2
        try:
            client.publish(topic, _BODY % (seq, journal.epoch), qos)
            accepted(seq, qos, topic)
        except inflight.OutboxFull:
            if not online:
                harness.join(settings)
            online = True
        if online:
            client.run_for(5)


def plain(settings):
    harness.join(settings)
    client = inflight.Client(settings.host, "plain", port=settings.port)
    client.connect()
    n = 0
    while True:
        n += 1
        client.publish("plain/n", '{"n":%d}' % n)
        client.run_for(20)
