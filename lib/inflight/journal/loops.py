# The loops over single bytes that take most of the time of a journal. The tools compile them to machine code for boards
# whose processor they know, as viper functions: their arguments have types for that. Everywhere else they are the
# functions that they seem to be. So they use nothing but buffers and numbers of 16 bits, and whoever calls them makes
# sure that the ranges lie within the buffers: machine code does not check it.

import sys

if sys.implementation.name != "micropython":  # it does not look at types
    from ..cpython import ptr8, ptr16


def add_to_crc(crc: ptr16, data: ptr8, i: int, end: int, low_of: ptr16, high_of: ptr16):
    """Continues the CRC-32 in crc, its low and its high half, with data[i:end]."""
    low = crc[0]
    high = crc[1]
    for i in range(i, end):
        x = (low ^ data[i]) & 255
        y = (x >> 4) + 16
        x &= 15
        low = (low >> 8 | (high & 255) << 8) ^ low_of[x] ^ low_of[y]
        high = high >> 8 ^ high_of[x] ^ high_of[y]
    crc[0] = low
    crc[1] = high


def copy_bytes(page: ptr8, k: int, data: ptr8, i: int, end: int):
    """Copies data[i:end] to page[k:]."""
    for i in range(i, end):
        page[k] = data[i]
        k += 1


def has_taken(data: ptr8, i: int, end: int, page: ptr8, k: int, exact: bool) -> bool:
    """True if data[i:end] is what page[k:] has; not `exact`: at least its zeros."""
    for i in range(i, end):
        b = data[i]
        if not exact:
            b |= page[k]
        if b != page[k]:
            return False
        k += 1
    return True
