# The time from power-on until a client could connect: argv is the journal's file, its blocks, and the number of live
# records. Prints JSON: ms, the best of five.

import json
import os
import sys
import time

from inflight import FileFlash, Journal
from inflight.journal.journal import OUT
from inflight.session.session import Session
from raw import number


def main():
    path = sys.argv[1]
    blocks = number(2)
    n = number(3)
    flash = FileFlash(path, blocks)
    journal = Journal(flash)
    body = b"\x32" + b"x" * 92
    for i in range(n):
        journal.append(OUT, i % 65535 + 1, body, len(body))
    flash.close()
    best = {"journal": 1e9, "session": 1e9}
    for _ in range(5):
        flash = FileFlash(path, blocks)
        start = time.ticks_us()
        journal = Journal(flash)
        mounted = time.ticks_us()
        session = Session(journal, bytearray(512), b"recovery")
        end = time.ticks_us()
        if session.pending != n:
            raise RuntimeError("%d records of %d" % (session.pending, n))
        flash.close()
        best["journal"] = min(best["journal"], time.ticks_diff(mounted, start) / 1000)
        best["session"] = min(best["session"], time.ticks_diff(end, mounted) / 1000)
    os.remove(path)
    print(json.dumps(best))


main()
