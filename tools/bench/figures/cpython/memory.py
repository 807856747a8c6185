"""The memory of a client on CPython: argv is the contender's module and the broker's port. Prints JSON, bytes: {client:
connected, with all that it imports, publish: the most that a message of QoS 1 takes until it is acknowledged}."""

import json
import sys
import tracemalloc
from statistics import median

contender = __import__(sys.argv[1])
tracemalloc.start()
client = contender.Contender(int(sys.argv[2]), "trip0", 1, True, bytearray(1024), contender.journal(""))
client.round(1, 20, 1)
connected = tracemalloc.get_traced_memory()[0]
peaks = []
for _ in range(20):
    before = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    client.round(1, 1, 1)
    peaks.append(tracemalloc.get_traced_memory()[1] - before)
client.close()
print(json.dumps({"client": connected, "publish": int(median(peaks))}))
