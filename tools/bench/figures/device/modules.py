# The heap that each module of Inflight uses, in the order of import. Prints JSON.

import array  # noqa: F401  modules that every application loads are not counted
import asyncio  # noqa: F401
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

found = {}


def heap():
    gc.collect()
    return gc.mem_alloc()


before = heap()
for module in sys.argv[1].split():
    __import__("inflight." + module)
    now = heap()
    found[module] = now - before
    before = now
print(json.dumps(found))
