# The image of a release as a read-only file system, from which MicroPython imports. Loaded by launch, in a device that
# runs a release. No update replaces this module.

import os
import struct

import vfs

_FILE = (0x8000, 0, 0, 0, 0, 0, 0, 0, 0, 0)  # as os.stat(); the importer asks for no more
_FOLDER = (0x4000, 0, 0, 0, 0, 0, 0, 0, 0, 0)
_NO_ENTRY = 2


def mount(path, place):
    """Mounts the image in the file `path` as the folder `place`. Raises OSError, or ValueError if it is no image."""
    vfs.mount(_Image(path), place)


def _index(path):
    # A 0; of each file "/", its path, a 0, its offset in the image, whose last byte is 0.
    size = os.stat(path)[6]
    found = []
    at = total = 0
    with open(path, "rb") as f:
        while at + total < size:  # the index ends where its files are all that is left
            name = f.read((f.read(1) or b"\0")[0])
            found.append((name, total))
            total += int.from_bytes(f.read(36)[:4], "little")  # its size and SHA-256
            at += len(name) + 37
    if at + total != size:
        raise ValueError("not whole")
    return b"\0" + b"".join([b"/" + name + struct.pack("<BI", 0, at + offset) for name, offset in found])


class _Image:
    # The methods that MicroPython calls of a file system.

    def __init__(self, path):
        self._path = path
        self._index = _index(path)

    def mount(self, readonly, mkfs):
        pass

    def umount(self):
        pass

    # Modules are imported deep within the application, and a Pico has 8 KB of stack: these call nothing of ours.

    def stat(self, path):
        path = b"\0" + path.encode()
        if self._index.find(path + b"\0") >= 0:
            return _FILE
        if self._index.find(path + b"/") >= 0:
            return _FOLDER
        raise OSError(_NO_ENTRY)

    def open(self, path, mode):
        # The image itself, where the file begins. A compiled module tells the importer where it ends; whoever else
        # reads knows the size.
        path = b"\0" + path.encode() + b"\0"
        at = self._index.find(path) + len(path)
        if at < len(path):
            raise OSError(_NO_ENTRY)
        f = open(self._path, "rb")
        f.seek(int.from_bytes(self._index[at : at + 4], "little"))
        return f
