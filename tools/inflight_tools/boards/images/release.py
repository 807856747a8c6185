"""The release of MicroPython that a firmware says it is."""

import re

_LEAST = (1, 22)
_BANNER = re.compile(rb"MicroPython v(\d+)\.(\d+)[^ \0]* on \d{4}-\d\d-\d\d")  # what it prints when it starts


def told(code):
    """The release that the firmware `code` tells, (1, 26); None if it tells none."""
    found = _BANNER.search(code)
    return (int(found[1]), int(found[2])) if found else None


def check_release(code):
    """ValueError, one line, if the firmware `code` is too old for the application, or does not tell its release."""
    release = told(code)
    if not release:
        raise ValueError("the firmware does not tell its release: --firmware takes MicroPython 1.22 or newer")
    if release < _LEAST:
        raise ValueError(f"the firmware is MicroPython {'%d.%d' % release}: --firmware takes 1.22 or newer")
