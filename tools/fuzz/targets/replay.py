"""Runs a corpus: lines "target number input"; the input in hexadecimal digits; the number is the outcome on CPython,
or - if unknown. The memory needed is that of the longest line."""

import gc
import sys
from binascii import unhexlify

from outcome import demand


def entries(path):
    """Yields (target, number or None, input)."""
    with open(path) as file:
        for line in file:
            words = line.split()
            if words and words[0] != "#":
                name, number = words[:2]
                yield name, None if number == "-" else int(number), unhexlify(words[2]) if len(words) > 2 else b""


def replay(path, only=None, step=1):
    """Requires that each input, or each `step`-th, has the recorded outcome. Returns how many were run, and the
    largest heap use."""
    n = most = met = 0
    for name, number, data in entries(path):
        if only and name != only:
            continue
        met += 1
        if (met - 1) % step:
            continue
        told = __import__(name + "_target").run(data)
        demand(number is None or told == number, "%s %s: %d, told %s", name, data, told, number)
        n += 1
        if hasattr(gc, "mem_alloc"):
            gc.collect()
            most = max(most, gc.mem_alloc())
    return n, most


if __name__ == "__main__":
    print("%d %d" % replay(sys.argv[1]))
