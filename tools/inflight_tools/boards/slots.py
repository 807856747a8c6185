"""The application as one file, the image of a slot, from which firmware/updates/launch.py starts it. It takes a quarter
of the flash that its files take: most of these are far smaller than a block."""

import hashlib
import runpy
import struct

from inflight_tools.boards.bundle import FIRMWARE
from inflight_tools.boards.loading import PACKAGE

LAUNCHER = ("image", "launch", "starting", "trial", "update_record")  # modules that start an application in a slot
_LIB = "/lib/"
_SET_UP = "/lib/setup"  # modules for a device without configuration: what updates itself has one


def needed(files):
    """{path in a slot: content} of those of `files`, {path on the device: content} of an application, that it imports
    there."""
    return {
        path.removeprefix(_LIB): content
        for path, content in files.items()
        if path.startswith(_LIB) and not path.startswith(_SET_UP)
    }


def index_of(files):
    """The index of an image with `files`, {path in the slot: content}."""
    entries = (
        bytes([len(path)]) + path.encode() + struct.pack("<I", len(content)) + hashlib.sha256(content).digest()
        for path, content in files.items()
    )
    return b"".join(entries)


def is_right(index, content):
    """True if `content` is that of the files in the bytes `index`, one after the other."""
    at = begin = 0
    while at < len(index):
        at += 1 + index[at]
        size = int.from_bytes(index[at : at + 4], "little")
        if hashlib.sha256(content[begin : begin + size]).digest() != index[at + 4 : at + 36]:
            return False
        at, begin = at + 36, begin + size
    return begin == len(content)


def divided(files):
    """(those of the application's `files` that stay files: what starts a slot, and the set-up; those that put the
    others into slot a, {path on the device: content})."""
    inside = needed(files)
    moved = {_LIB + path for path in inside} - {f"{_LIB}{name}.mpy" for name in LAUNCHER}
    stay = {
        path: content
        for path, content in files.items()
        if path not in moved and not path.startswith(f"{_LIB}{PACKAGE}/")  # a package is imported from one folder
    }
    record = runpy.run_path(str(FIRMWARE / "updates/update_record.py"))["Record"]()
    record.n = record.slot = 1
    return stay, {"/a.image": index_of(inside) + b"".join(inside.values()), "/update.0": record.pack()}
