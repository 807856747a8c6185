"""Waits, with an end."""

import time


def wait_for(happened, seconds, what="", pause_s=0.01):
    """Returns what happened() returns once that is true; fails if it is not within so many seconds. what: a text, or a
    function that returns one, for whoever reads of the failure."""
    end = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < end, f"not within {seconds} s: {what() if callable(what) else what}"
        time.sleep(pause_s)
    return found
