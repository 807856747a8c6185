"""Waiting with a time-out."""

import time


def wait_for(happened, seconds, what="", pause_s=0.01):
    """Returns the result of happened() as soon as it is true; fails after so many seconds. what: a text for the
    failure message, or a function that returns it."""
    end = time.monotonic() + seconds
    while not (found := happened()):
        assert time.monotonic() < end, f"not within {seconds} s: {what() if callable(what) else what}"
        time.sleep(pause_s)
    return found
