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


def firmware_folders():
    """Where MicroPython's firmware images may lie: the folder `INFLIGHT_FIRMWARE` if that is set; else the cache, which
    is also where downloads go, and that of the emulated Pico W."""
    chosen = os.environ.get("INFLIGHT_FIRMWARE")
    if chosen:
        return [Path(chosen).expanduser().absolute()]
    return [cache_dir() / "firmware", Path.home() / ".cache/rp2040py"]


def find_firmware(name):
    """The path of the image `name`, None if it is in none of the folders."""
    return next((folder / name for folder in firmware_folders() if (folder / name).is_file()), None)


def write_below(folder, files):
    """Writes `files`, {path below `folder`: content}."""
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def write_atomic(path, content, mode=0o644):
    """The file holds all of `content`, text or bytes, or what it held before; its folder is made if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    os.chmod(temporary, mode)
    os.replace(temporary, path)
