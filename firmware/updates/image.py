# An image as a read-only file system, from which MicroPython imports: that of a release, or of the application that a
# cable brings. Loaded by launch. No update replaces this module.

import os
import struct
from binascii import crc32

try:
    import vfs
except ImportError:
    vfs = os  # type: ignore[misc] # MicroPython 1.22

_FILE = (0x8000, 0, 0, 0, 0, 0, 0, 0, 0, 0)  # as os.stat(); the importer asks for no more
_FOLDER = (0x4000, 0, 0, 0, 0, 0, 0, 0, 0, 0)
_NO_ENTRY = 2
_ENTRY = 8  # bytes in memory for each file
_LONGEST = 292  # an entry of the index: the length of a path, the path, its file's size, and that file's SHA-256
_CHUNK = 512  # few calls of the file system


def mount(path, place):
    """Mounts the image in the file `path` as the folder `place`. Raises OSError, or ValueError if it is no image."""
    folders, found, data = [], bytearray(), b""
    size = os.stat(path)[6]
    at = total = i = 0
    with open(path, "rb") as f:
        while at + total < size:  # the index ends where its files are all that is left
            if len(data) - i < _LONGEST:
                data = data[i:] + f.read(_CHUNK)
                i = 0
            n = data[i] if i < len(data) else 0
            end = i + 1 + n
            name = data[i + 1 : end]
            found += struct.pack("<II", crc32(name), total)
            k = name.rfind(b"/")
            if k > 0 and name[:k] not in folders:
                folders.append(name[:k])
            total += int.from_bytes(data[end : end + 4], "little")
            i = end + 36
            at += n + 37
    if at + total != size or not found:
        raise ValueError("not whole")
    vfs.mount(_Image(path, at, bytes(found), ["/" + name.decode() for name in folders]), place)


class _Image:
    # The methods that MicroPython calls of a file system. All that is in an image are compiled modules, some of them in
    # folders.

    def __init__(self, path, begin, index, folders):
        self._path = path
        self._begin = begin  # of what the files contain
        self._index = index  # of each file: the CRC of its path, and where its content begins
        self._folders = folders
        self._found = ""  # the path that stat() found last, whose content `_file` gives next
        self._file = None

    def mount(self, readonly, mkfs):
        pass

    def umount(self):
        pass

    def ilistdir(self, path):
        return iter(())  # whoever lists all files finds the image itself

    # Modules are imported deep within the application, and a Pico has 8 KB of stack: these call nothing of ours. The
    # importer asks for each module's folder, then for its source, then for what is there, which it opens. Only who
    # opens a file without stat() before goes one call deeper.

    def stat(self, path):
        if path[-4:] == ".mpy":
            index = self._index
            key = struct.pack("<I", crc32(path[1:].encode()))
            i = index.find(key)
            while i > 0 and i % _ENTRY:
                i = index.find(key, i + 1)
            if i < 0:
                raise OSError(_NO_ENTRY)
            f = open(self._path, "rb")
            f.seek(self._begin + int.from_bytes(index[i + 4 : i + _ENTRY], "little"))
            self._found = path
            self._file = f
            return _FILE
        if path in self._folders:
            return _FOLDER
        raise OSError(_NO_ENTRY)

    def open(self, path, mode):
        # The image itself, where the file begins. A compiled module tells the importer where it ends; whoever else
        # reads knows the size.
        if path != self._found:
            self.stat(path)
        f = self._file
        self._found = ""
        self._file = None
        return f
