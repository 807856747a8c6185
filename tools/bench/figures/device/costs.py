# The heap that a client uses: argv is the contender's module, the broker's port, the number of messages, and the file
# for a journal. Prints JSON.

import array  # noqa: F401  modules that every application loads are not counted
import asyncio
import errno  # noqa: F401
import gc
import json
import random  # noqa: F401
import select  # noqa: F401
import socket  # noqa: F401
import struct  # noqa: F401
import sys
import time  # noqa: F401
from binascii import crc32  # noqa: F401

from held import held
from raw import Raw, number

_WARM = 20  # messages before the measurement: one-time allocations


def allocated(work):
    """Bytes that work() allocates, including those that it frees."""
    gc.collect()
    gc.disable()
    before = gc.mem_alloc()
    work()
    used = gc.mem_alloc() - before
    gc.enable()
    return used


def main():
    contender = __import__(sys.argv[1])
    port = number(2)
    n = number(3)
    found = {}
    asyncio.sleep_ms  # asyncio loads this part at its first use
    before = held()
    contender.load()
    found["import"] = held() - before
    buffer = bytearray(1024)
    before = held()
    journal = contender.journal(sys.argv[4])
    found["journal"] = held() - before
    before = held()
    name = sys.argv[4].split("/")[-1]  # a session of its own for each journal
    client = contender.Contender(port, name, 8, True, buffer, journal)
    found["client"] = held() - before
    for qos in contender.QOS:
        client.round(qos, _WARM, 8)
        found["publish_%d" % qos] = allocated(lambda: client.round(qos, n, 8)) / n
    for qos in contender.QOS:
        found["receive_%d" % qos] = received(client, Raw(port, "source", qos, True), qos, n)
    client.close()
    print(json.dumps(found))


def received(client, source, qos, n):
    client.listen(qos)

    def some(first, last):
        for i in range(first, last):
            source.send()
            client.receive(i + 1)

    some(0, _WARM)
    used = allocated(lambda: some(_WARM, _WARM + n)) / n
    source.close()
    return used


main()
