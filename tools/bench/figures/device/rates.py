# Alternating rounds of the bare socket and of a client, with the same broker: argv is the contender's module, the
# broker's port, QoS, 1 for TCP_NODELAY, round-trip time in ms, messages in flight, messages of a round, rounds.
# Prints JSON: [[messages/s of the ceiling, of the client], ...].

import gc
import json
import sys
import time

from raw import Raw, number


def rate(client, qos, n, window):
    gc.collect()  # garbage of earlier rounds must not slow down this one
    start = time.ticks_us()
    client.round(qos, n, window)
    return n * 1e6 / time.ticks_diff(time.ticks_us(), start)


def main():
    contender = __import__(sys.argv[1])
    port, qos, nodelay, trip, window, n, rounds = [number(i) for i in range(2, 9)]
    name = "sink" if not qos else "trip%d" % trip
    raw = Raw(port, name, qos, nodelay)
    client = contender.Contender(port, name, window, nodelay, bytearray(1024), contender.journal(""))
    # The warm-up gives the rate: the rounds of a slow client are limited to a second.
    rate(raw, qos, n, window)
    most = max(window, int(rate(client, qos, max(window, n // 20), window)))
    found = []
    for _ in range(rounds):
        found.append((rate(raw, qos, n, window), rate(client, qos, min(n, most), window)))
    raw.close()
    client.close()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
