# What differs between MicroPython and CPython stands here, and what CPython lacks in cpython.
# Every timer asks passed().

import sys

if sys.implementation.name == "micropython":
    from select import poll as poller
    from struct import pack_into
    from sys import print_exception
    from time import sleep_ms, ticks_add, ticks_diff, ticks_ms

    from micropython import const

    # struct copies without a slice object and pads with zeros: the smallest that holds the data is taken. From 8 bytes
    # on, each is four times as long.
    _COPIES = ("8s", "32s", "128s", "512s", "2048s")

    def copy_format(n, space):
        """The format with which struct copies n bytes into `space` bytes, None if there is none."""
        size = 8
        for form in _COPIES:
            if n <= size <= space:
                return form
            size *= 4

    def copy(buf, i, data):
        """Copies bytes-like `data` to buf[i:] without allocating; what lies behind may become zeros.
        Returns the index behind it."""
        end = i + len(data)
        form = copy_format(end - i, len(buf) - i)
        if form:
            pack_into(form, buf, i, data)
            return end
        for c in data:
            buf[i] = c
            i += 1
        return end

    def of_bytes(view):
        """A memoryview of bytes with those of `view`: a copy if its items are wider, of which len() tells too little.
        There is no itemsize."""
        return bytes(view) if len(bytes(view[:1])) > 1 else view

else:
    from .cpython import (
        const,
        copy,
        copy_format,
        of_bytes,
        poller,
        print_exception,
        sleep_ms,
        ticks_add,
        ticks_diff,
        ticks_ms,
    )


def passed(now, start, ms):
    """True if `ms` have passed since `start`. Ticks wrap: what was noted more than half their period ago
    (6 days) seems to lie ahead, and has passed; a moment that lies in the past only by chance is at most
    `ms` off."""
    return not 0 <= ticks_diff(now, start) < ms
