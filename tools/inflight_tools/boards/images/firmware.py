"""MicroPython's firmware for a board: the file that the user names, or the pinned release, checked."""

import hashlib
import http.client
import os
import re
import urllib.error
import urllib.request
from pathlib import Path

from inflight_tools.cache import firmware_folders, write_atomic

SITE = "https://micropython.org/resources/firmware"


class NoFirmware(ValueError):
    """The pinned firmware can neither be found nor be downloaded."""


def obtain(variant, named=None, sha256=None, timeout_s=30, advice="name it with --firmware"):
    """The content of the firmware for `variant`: of the file `named`, otherwise of the pinned release, downloaded if
    it is not in the cache. Its SHA-256 must be `sha256`, or the pinned one. ValueError with one line that ends with
    `advice`, NoFirmware if the download fails; `timeout_s` applies to each answer of the site."""
    if sha256 and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise ValueError("--sha256: write the 64 hexadecimal digits of the firmware's SHA-256")
    if named:
        content = _named(Path(named))
        _check(content, sha256, named)
        return content
    wanted = sha256 or variant.sha256
    folders = firmware_folders()
    for folder in folders:
        kept = folder / variant.firmware
        if kept.is_file() and _digest(content := kept.read_bytes()) == wanted.lower():
            return content
    return _download(variant.firmware, wanted, folders[0], timeout_s, f"download it elsewhere and {advice}")


def _named(path):
    if not path.is_file():
        raise ValueError(f"no file {path}: --firmware names MicroPython's firmware for the board")
    return path.read_bytes()


def _digest(content):
    return hashlib.sha256(content).hexdigest()


def _check(content, wanted, name):
    if wanted and _digest(content) != wanted.lower():
        raise ValueError(f"{name}: wrong SHA-256: it is {_digest(content)}, wanted {wanted.lower()}")


def _download(name, wanted, folder, timeout_s, advice):
    """Downloads firmware `name` into `folder`; the file appears complete and checked, or not at all."""
    url = f"{os.environ.get('INFLIGHT_FIRMWARE_MIRROR', SITE).rstrip('/')}/{name}"
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as answer:
            content = answer.read()
    except http.client.IncompleteRead as e:
        got, whole = len(e.partial), len(e.partial) + e.expected
        raise NoFirmware(f"{url}: the download ended early, {got} of {whole} bytes: try again, or {advice}") from None
    except urllib.error.HTTPError as e:
        raise NoFirmware(f"cannot download {url}: {e.code} {e.reason}: {advice}") from None
    except (OSError, http.client.HTTPException) as e:  # no network, no such host, a time-out
        raise NoFirmware(f"cannot download {url}: {getattr(e, 'reason', None) or e}: {advice}") from None
    _check(content, wanted, url)
    write_atomic(folder / name, content)
    return content
