# The image of a release as a read-only file system, from which MicroPython imports. Loaded by launch, in a device that
# runs a release. No update replaces this module.

import os
import struct

import vfs

_FILE = 0x8000
_FOLDER = 0x4000
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
        raise ValueError(path)
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

    def stat(self, path):
        if self._find(path, b"\0"):
            kind = _FILE
        elif self._find(path, b"/"):
            kind = _FOLDER
        else:
            raise OSError(_NO_ENTRY)
        return (kind,) + (0,) * 9

    def open(self, path, mode):
        # The image itself, where the file begins. A compiled module tells the importer where it ends; whoever else
        # reads knows the size.
        at = self._find(path, b"\0")
        if not at:
            raise OSError(_NO_ENTRY)
        f = open(self._path, "rb")
        f.seek(int.from_bytes(self._index[at : at + 4], "little"))
        return f

    def _find(self, path, end):
        # Where in the index something follows a path that ends so; 0 if there is none.
        wanted = b"\0" + path.encode() + end
        at = self._index.find(wanted)
        return at + len(wanted) if at >= 0 else 0
