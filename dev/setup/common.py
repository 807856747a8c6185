"""The ground under every part of the set-up: where things go, how it speaks, how it fails, how it keeps others out."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


class Trouble(Exception):
    """Something that the set-up cannot do; the text is the one line a person reads.

    `passing` is True for what may be gone at the next try (network, disk), False for what this host is.
    """

    def __init__(self, text, passing=False):
        super().__init__(text)
        self.passing = passing


def say(text):
    print("setup:", text, file=sys.stderr, flush=True)


def digest(*parts):
    """A short fingerprint of paths' contents and plain strings."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part.read_bytes() if isinstance(part, Path) else str(part).encode())
        total.update(b"\0")
    return total.hexdigest()[:16]


def run(command, purpose):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in lines if line.lower().startswith("error")] or lines[-1:] or ["no reason given"]
        unreachable = " (the package index cannot be reached)" if "connection broken" in done.stderr else ""
        raise Trouble(f"{purpose}: {errors[0]}{unreachable}", passing=True)


@contextlib.contextmanager
def exclusive(folder):
    """Hold `folder` for this process alone. The kernel lets go when the process dies, so no stale lock can stay."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another set-up that works in {folder}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def appearing(target):
    """A temporary folder that becomes `target` in one step when the block ends well, and vanishes when it does not."""
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".new-", dir=target.parent))
    try:
        yield work
        work.chmod(0o755)
        if target.exists():
            shutil.rmtree(target)
        work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def sweep(folder):
    """Remove what a killed set-up left half-made in `folder`; only for whoever holds the lock."""
    for left in folder.glob(".new-*"):
        shutil.rmtree(left, ignore_errors=True)


def read_json(path):
    """The object in `path`, or {} when there is none or it is damaged: the set-up then makes it again."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
