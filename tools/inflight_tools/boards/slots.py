"""The application as one file, an image, from which firmware/updates/launch.py starts it: in a slot, or as a cable
brings it. An image takes a quarter of the flash that its files take, since most of these are far smaller than a block,
and a module is imported in less time: for each module littlefs would read the entries of its folders four times."""

import hashlib
import runpy
import struct
from binascii import crc32

from inflight_tools.boards.build.bundle import FIRMWARE
from inflight_tools.boards.build.loading import PACKAGE, PACKED

APPLICATION = "/app.image"
LAUNCHER = ("image", "launch", "starting", "trial", "update_record")  # modules that start an application in a slot
_AT_START = ("image.mpy", "launch.mpy")  # those of them that no application imports
_LIB = "/lib/"
_SET_UP = "/lib/setup"  # modules for a device without configuration: what updates itself has one


def needed(files):
    """{path in a slot: content} of what an application imports in a slot, from its `files`, {path on the device:
    content}."""
    return {
        path.removeprefix(_LIB): content
        for path, content in files.items()
        if path.startswith(_LIB) and not path.startswith(_SET_UP) and path.removeprefix(_LIB) not in _AT_START
    }


def index_of(files):
    """The index of an image with `files`, {path in the slot: content}. ValueError if a device would confuse two."""
    if len({crc32(path.encode()) for path in files}) < len(files):  # as firmware/updates/image.py finds them
        raise ValueError("the paths of two modules have the same CRC-32: rename one of your own")
    entries = (
        bytes([len(path)]) + path.encode() + struct.pack("<I", len(content)) + hashlib.sha256(content).digest()
        for path, content in files.items()
    )
    return b"".join(entries)


def is_right(index, content):
    """True if `content` is the content of the files in the bytes `index`, one after the other."""
    at = begin = 0
    while at < len(index):
        at += 1 + index[at]
        size = int.from_bytes(index[at : at + 4], "little")
        if hashlib.sha256(content[begin : begin + size]).digest() != index[at + 4 : at + 36]:
            return False
        at, begin = at + 36, begin + size
    return begin == len(content)


def divided(files):
    """(the application's `files` that stay files: what starts a slot, and the set-up; the files that make the others
    slot a), {path on the device: content} each."""
    stay, image = _apart(files)
    record = runpy.run_path(str(FIRMWARE / "updates/update_record.py"))["Record"]()
    record.n = record.slot = 1
    return stay, {"/a.image": image, "/update.0": record.pack()}


def packed(files, board):
    """`files`, {path on the device: content}, as a cable brings them to a board of that folder: an application, or what
    of it is not elsewhere, as an image to some, from which launch starts it."""
    if board not in PACKED or "/main.py" not in files or not needed(files):
        return files
    stay, image = _apart(files)
    return stay | {APPLICATION: image}


def _apart(files):
    # What stays files, and the image of the others. Applications import some of what starts an image: that is in both.
    inside = needed(files)
    moved = {_LIB + path for path in inside} - {f"{_LIB}{name}.mpy" for name in LAUNCHER}
    stay = {
        path: content
        for path, content in files.items()
        if path not in moved and not path.startswith(f"{_LIB}{PACKAGE}/")  # a package is imported from one folder
    }
    return stay, index_of(inside) + b"".join(inside.values())
