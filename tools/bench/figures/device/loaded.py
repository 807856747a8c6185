# Modules that every application loads: a script that imports this one does not count them.

import array  # noqa: F401
import asyncio
import errno  # noqa: F401
import json  # noqa: F401
import random  # noqa: F401
import select  # noqa: F401
import socket  # noqa: F401
import struct  # noqa: F401
import time  # noqa: F401
from binascii import crc32  # noqa: F401

asyncio.sleep_ms  # asyncio loads this part at its first use
