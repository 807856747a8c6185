"""The cache: what was downloaded or unpacked once, and may be deleted at any time."""

import os
import tempfile
from pathlib import Path


def cache_dir():
    """The cache: `INFLIGHT_CACHE`, else inflight/ in the user's cache folder."""
    chosen = os.environ.get("INFLIGHT_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "inflight"


def write_atomic(path, text, mode=0o644):
    """The file holds all of `text`, or what it held before; its folder is made if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.chmod(temporary, mode)
    os.replace(temporary, path)
