"""Waits, with an end."""

import time


def wait_for(happened, seconds):
    """Returns what happened() returns once that is true; fails if it is not within so many seconds."""
    end = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.05)
    return found
