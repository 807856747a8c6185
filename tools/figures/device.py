# Runs on a MicroPython with the library as .mpy, against a broker at port argv[1]: prints what
# things cost, one "name value" per line. What is exact is asserted by tests; here it is told.

import array  # noqa: F401  what every application has loaded is not counted
import errno  # noqa: F401
import gc
import os
import random  # noqa: F401
import select  # noqa: F401
import socket  # noqa: F401
import struct  # noqa: F401
import sys
import time
from binascii import crc32  # noqa: F401

TOPIC = "sensors/attic/temperature"
PAYLOAD = b"x" * 64
ROOMS = "port packet topic pages journal outbound inbound session base link client flash"


def say(name, value):
    print(name.replace(" ", "_"), value)


def heap():
    gc.collect()
    return gc.mem_alloc()


def imports():
    start = before = heap()
    __import__("inflight")
    for room in ROOMS.split():
        __import__("inflight." + room)
        now = heap()
        say("import " + room, now - before)
        before = now
    say("import all", before - start)


def per_message(client, qos, count=200):
    """Bytes of heap per publish, and messages/s."""
    for _ in range(50):
        client.publish(TOPIC, PAYLOAD, qos)
    client.drain(10_000)
    gc.collect()
    gc.disable()
    start = gc.mem_alloc()
    clock = time.ticks_us()
    for _ in range(count):
        client.publish(TOPIC, PAYLOAD, qos)
    client.drain(10_000)
    clock = time.ticks_diff(time.ticks_us(), clock)
    used = gc.mem_alloc() - start
    gc.enable()
    say("publish %d bytes" % qos, used / count)
    say("publish %d rate" % qos, round(count * 1e6 / clock))


def received(client, qos, count=200):
    """Bytes of heap per publish and receipt by a handler that looks at nothing."""
    got = [0]

    def handler(message):
        got[0] += 1

    def round_trips(n):
        for _ in range(n):
            client.publish(TOPIC, PAYLOAD, qos)
            seen = got[0]
            while got[0] == seen:
                client._turn(1000)

    client.subscribe(TOPIC, qos, handler)
    round_trips(50)
    gc.collect()
    gc.disable()
    start = gc.mem_alloc()
    round_trips(count)
    used = gc.mem_alloc() - start
    gc.enable()
    client.unsubscribe(TOPIC)
    say("receive %d bytes" % qos, used / count)


def main():
    imports()
    from inflight import Client, FileFlash, Journal

    buffer = bytearray(1024)
    before = heap()
    flash = FileFlash(sys.argv[2])
    say("flash", heap() - before)
    before = heap()
    journal = Journal(flash)
    say("journal", heap() - before)
    before = heap()
    client = Client("127.0.0.1", "figures", journal, port=int(sys.argv[1]), buffer=buffer)
    client.connect()
    say("client", heap() - before)
    client.disconnect()
    before = journal.used
    client.publish(TOPIC, PAYLOAD, 1)
    say("record", journal.used - before)
    client.connect()
    for qos in (0, 1, 2):
        per_message(client, qos)
    for qos in (0, 1, 2):
        received(client, qos)
    client.disconnect()
    os.remove(sys.argv[2])


main()
