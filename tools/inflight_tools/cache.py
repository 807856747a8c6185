"""The cache of downloaded and unpacked files; it may be deleted at any time."""

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path


def cache_dir() -> Path:
    """The cache: `INFLIGHT_CACHE`, else inflight/ in the user's cache folder."""
    if chosen := os.environ.get("INFLIGHT_CACHE"):
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "inflight"


def firmware_folders() -> list[Path]:
    """Folders that may contain MicroPython's firmware images: `INFLIGHT_FIRMWARE` if it is set; otherwise the cache,
    where downloads are stored, and the cache of the emulated Pico W."""
    if chosen := os.environ.get("INFLIGHT_FIRMWARE"):
        return [Path(chosen).expanduser().absolute()]
    return [cache_dir() / "firmware", Path.home() / ".cache/rp2040py"]


def find_firmware(name: str) -> Path | None:
    """The path of the image `name`, None if it is in none of the folders."""
    return next((folder / name for folder in firmware_folders() if (folder / name).is_file()), None)


def write_below(folder: Path, files: Mapping[str, bytes] | Mapping[Path, bytes]) -> None:
    """Writes `files`, {path below `folder`: content}."""
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def write_atomic(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    """Replaces the file's content by `content`, text or bytes, completely or not at all; creates its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except OSError as e:
        os.unlink(temporary)
        e.filename = str(path)
        raise


def write_private(path: Path, content: str | bytes) -> None:
    """write_atomic() of a file with secrets: its owner alone may read it, from its first byte on. An older file keeps
    its mode where that allows less."""
    mode = 0o600
    with contextlib.suppress(FileNotFoundError):
        mode &= path.stat().st_mode
    write_atomic(path, content, mode)
