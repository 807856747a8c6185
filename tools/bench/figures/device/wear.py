# Flash wear by the client's journal: argv is the broker's port, QoS, kind of flash, bytes of the message, messages.
# Prints JSON.

import json
import sys

from inflight import Client, Journal, RamFlash
from raw import TOPIC, number


class Counting(RamFlash):
    """RAM that is used as flash, and counts programs and erases."""

    volatile = False
    programs = programmed = erases = 0

    def program(self, at, buf, off, n):
        self.programs += 1
        self.programmed += n
        super().program(at, buf, off, n)

    def ioctl(self, op, arg):
        if op == 6:
            self.erases += 1
        return super().ioctl(op, arg)


class Paged(Counting):
    """Programs whole pages, filled with FF around the new bytes."""

    program = None
    page = 256

    def writeblocks(self, block, buf, offset):
        # Programming can only clear bits.
        old = bytearray(len(buf))
        self.readblocks(block, old, offset)
        for i in range(len(buf)):
            old[i] &= buf[i]
        self.programs += 1
        self.programmed += len(buf)
        self._file.seek(block * self._size + offset)
        self._file.write(old)


def main():
    qos = number(2)
    size = number(4)
    n = number(5)
    flash = {"bytes": Counting, "pages": Paged}[sys.argv[3]](16, 4096)
    journal = Journal(flash)
    client = Client("127.0.0.1", "trip0", journal, port=number(1), keepalive=0, buffer=bytearray(9000))
    client.connect()
    payload = b"x" * (size - len(TOPIC))
    used = journal.used
    client.publish(TOPIC, payload, qos)
    used = journal.used - used
    # A blank ring needs no erase. The measurement begins with the first one.
    flash.erases = 0
    while qos and not flash.erases:
        client.publish(TOPIC, payload, qos)
        client.drain(10_000)
    flash.programs = flash.programmed = flash.erases = 0
    for _ in range(n):
        client.publish(TOPIC, payload, qos)
        client.drain(10_000)
    client.disconnect()
    count = {"programs": flash.programs, "programmed": flash.programmed, "erases": flash.erases}
    found = {name: value / n for name, value in count.items()}
    found["record"] = used
    print(json.dumps(found))


main()
