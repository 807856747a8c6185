"""Helpers of the set-up: messages, errors, locks, folders."""

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


class SetupError(Exception):
    """The set-up cannot do something. The text is one line for the user. `temporary`: a retry may succeed (network,
    disk)."""

    def __init__(self, text, temporary=False):
        super().__init__(text)
        self.temporary = temporary


def say(text):
    print("setup:", text, file=sys.stderr, flush=True)


def digest(*parts):
    """A short hash of files' contents and strings."""
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
        raise SetupError(f"{purpose}: {errors[0]}{unreachable}", temporary=True)


@contextlib.contextmanager
def exclusive(folder):
    """Locks `folder`. The kernel releases the lock when the process ends, so no stale lock can stay."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process in {folder}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def atomic_folder(target):
    """A temporary folder. It is renamed to `target` if the block succeeds, and removed if it fails."""
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
    """Removes temporary folders of a killed set-up from `folder`. The caller holds the lock."""
    for left in folder.glob(".new-*"):
        shutil.rmtree(left, ignore_errors=True)


def read_json(path):
    """The JSON object in `path`; {} if it is missing or damaged."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
