"""One target, one input: what came of it, and the shortest input of which the same comes. For the main thread alone."""

import re
import signal
import traceback

LIMIT_S = 20  # what one input may take


def _too_late(signum, frame):
    raise TimeoutError(f"it took longer than {LIMIT_S} s")


def broken(run, data):
    """What `run` made of data in one line, None if all was well."""
    signal.signal(signal.SIGALRM, _too_late)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        run(data)
    except TimeoutError as error:  # it may stand anywhere
        return f"TimeoutError: {error}"
    except Exception as error:  # whatever it is: a finding
        last = traceback.extract_tb(error.__traceback__)[-1]
        text = re.sub(r"\s+", " ", str(error))[:200]
        return f"{type(error).__name__} at {last.filename.rsplit('/', 1)[-1]}:{last.lineno}: {text}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return None


def _place(told):
    return told and told.split(": ")[0]


def minimized(run, data, tries=3000):
    """The shortest input found that breaks at the same place: pieces are left out, ever smaller ones."""
    place = _place(broken(run, data))
    if not place or place.startswith("Timeout"):
        return data  # each try would take as long
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
