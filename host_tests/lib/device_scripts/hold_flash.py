"""Holds a journal file open until it is killed: `hold_flash.py FILE`."""

import sys
import time

from inflight import FileFlash

flash = FileFlash(sys.argv[1], 4, 512)
print("in use")
while True:
    time.sleep(1)
