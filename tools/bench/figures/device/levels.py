# Rounds of clients of the levels 4 and 5 in turn, with the same broker: argv is the broker's port, QoS, 1 for
# TCP_NODELAY, round-trip time in ms, messages in flight, messages of a round, rounds. Prints JSON: [[messages/s at
# level 4, at level 5], ...].

import json

import ours
import ours_level_5
from rates import rate
from raw import number


def main():
    port, qos, nodelay, trip, window, n, rounds = [number(i) for i in range(1, 8)]
    name = "sink" if not qos else "trip%d" % trip
    clients = [
        contender.Contender(port, name, window, nodelay, bytearray(1024), contender.journal(""))
        for contender in (ours, ours_level_5)
    ]
    for client in clients:
        rate(client, qos, max(window, n // 20), window)
    print(json.dumps([[rate(client, qos, n, window) for client in clients] for _ in range(rounds)]))
    for client in clients:
        client.close()


main()
