# The parts of the time of a publish at QoS 1: argv is the broker's port, messages of a round, rounds, the file for a
# journal or "". Prints JSON: {part: us per message}.

import gc
import json
import sys
import time

import inflight.packet as packet
import ours
from inflight.journal.journal import DONE, OUT
from raw import PAYLOAD, TOPIC, number

NAME = TOPIC.encode()
ALL = "all, with the broker's answer"


def main():
    n = number(2)
    one = ours.Contender(number(1), "trip0", 8, True, bytearray(1024), ours.journal(sys.argv[4]))
    client = one.client
    journal = client.session.journal
    sink = ours.Contender(number(1), "sink", 8, True, bytearray(1024), None)
    transport = sink.client._transport
    buffer = bytearray(256)
    size = packet.copy(buffer, packet.publish(buffer, NAME, len(PAYLOAD), 1, False, 1), PAYLOAD)

    def encode():
        for _ in range(n):
            packet.copy(buffer, packet.publish(buffer, NAME, len(PAYLOAD), 1, False, 1), PAYLOAD)

    def record():
        for _ in range(n):
            journal.mark(journal.append(OUT, 1, buffer, size), DONE)

    def send():
        for _ in range(n):
            transport.send(buffer, 0, size)

    def publish():
        one.round(1, n, 8)

    best = {}
    for _ in range(number(3)):
        for name, work in (("encode", encode), ("journal", record), ("send", send), (ALL, publish)):
            gc.collect()
            start = time.ticks_us()
            work()
            took = time.ticks_diff(time.ticks_us(), start) / n
            best[name] = min(best.get(name, took), took)
    one.close()
    sink.close()
    print(json.dumps(best))


main()
