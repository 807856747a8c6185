"""Runs one input on a target, and minimizes inputs. For the main thread only."""

import re
import signal
import traceback

LIMIT_S = 20  # time-out of one input


def _too_late(signum, frame):
    raise TimeoutError(f"it took longer than {LIMIT_S} s")


def broken(run, data):
    """The finding of `run` with data in one line, None if there is none."""
    signal.signal(signal.SIGALRM, _too_late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        run(data)
    except TimeoutError as error:  # the traceback's position is arbitrary
        return f"TimeoutError: {error}"
    except Exception as error:  # any other exception is a finding too
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = re.sub(r"\s+", " ", str(error))[:200]
        return f"{type(error).__name__} at {last.filename.rsplit('/', 1)[-1]}:{last.lineno}: {text}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def _place(told):
    return told and told.split(": ")[0]


def minimized(run, data, tries=3000):
    """The shortest input found that fails at the same place, by removing ever smaller chunks."""
    place = _place(broken(run, data))
    if not place or place.startswith("Timeout"):
        return data  # each attempt would take as long
    size = max(1, len(data) // 2)
    while size and tries > 0:
        at, before = 0, len(data)
        while at < len(data) and tries > 0:
            tries -= 1
            shorter = data[:at] + data[at + size :]
            if _place(broken(run, shorter)) == place:
                data = shorter
            else:
                at += size
        size = size if len(data) < before else size // 2
    return data
