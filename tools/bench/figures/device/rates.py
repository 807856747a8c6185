# Rounds of several clients in turn, so that what else the machine does hits them alike: argv is the broker's port, QoS,
# 1 for TCP_NODELAY, round-trip time in ms, messages in flight, messages of a round, rounds, and the contenders: their
# modules, separated by commas, or "raw" for the bare socket. Prints JSON: [[messages/s of each], ...].

import gc
import json
import sys

from raw import Raw, number

try:
    from time import ticks_diff, ticks_us
except ImportError:  # CPython
    from time import perf_counter

    def ticks_us():
        return perf_counter() * 1e6

    def ticks_diff(end, start):
        return end - start


def connected(contender, port, name, qos, window, nodelay):
    if contender == "raw":
        return Raw(port, name, qos, nodelay)
    module = __import__(contender)
    return module.Contender(port, name, window, nodelay, bytearray(1024), module.journal(""))


def rate(client, qos, n, window):
    gc.collect()  # garbage of earlier rounds must not slow down this one
    start = ticks_us()
    client.round(qos, n, window)
    return n * 1e6 / ticks_diff(ticks_us(), start)


def main():
    port, qos, nodelay, trip, window, n, rounds = [number(i) for i in range(1, 8)]
    name = "trip%d" % trip if qos else "sink"
    clients = [connected(word, port, name, qos, window, nodelay) for word in sys.argv[8].split(",")]
    # The warm-up gives the rate: the rounds of a slow client are limited to a second.
    most = [max(window, int(rate(client, qos, max(window, n // 20), window))) for client in clients]
    found = []
    for _ in range(rounds):
        found.append([rate(client, qos, min(n, limit), window) for client, limit in zip(clients, most)])
    for client in clients:
        client.close()
    print(json.dumps(found))


main()
