# An image as a read-only file system, from which MicroPython imports: that of a release, or of the application that a
# cable brings. Loaded by launch. No update replaces this module.

import os
import struct

try:
    import vfs
except ImportError:
    vfs = os  # type: ignore[misc] # MicroPython 1.22

_FILE = (0x8000, 0, 0, 0, 0, 0, 0, 0, 0, 0)  # as os.stat(); the importer asks for no more
_FOLDER = (0x4000, 0, 0, 0, 0, 0, 0, 0, 0, 0)
_NO_ENTRY = 2
_ENTRY = 7  # bytes in memory for each file


def mount(path, place):
    """Mounts the image in the file `path` as the folder `place`. Raises OSError, or ValueError if it is no image."""
    folders = []
    found = []
    size = os.stat(path)[6]
    at = total = 0
    with open(path, "rb") as f:
        n = (f.read(1) or b"\0")[0]
        while at + total < size:  # the index ends where its files are all that is left
            entry = f.read(n + 37)  # its path, size and SHA-256, and the length of the next path
            name = "/" + entry[:n].decode()
            found.append(struct.pack("<HHI", hash(name) & 0xFFFF, at, total)[:_ENTRY])
            folder = name[: max(0, name.rfind("/"))]
            if folder and folder not in folders:
                folders.append(folder)
            total += int.from_bytes(entry[n : n + 4], "little")
            at += n + 37
            n = (entry[-1:] or b"\0")[0]
    if at + total != size or not found:
        raise ValueError("not whole")
    vfs.mount(_Image(path, at, b"".join(found), folders), place)


class _Image:
    # The methods that MicroPython calls of a file system. All that is in an image are compiled modules, some of them in
    # folders.

    def __init__(self, path, begin, index, folders):
        self._path = path
        self._begin = begin  # of what the files contain
        self._index = index  # of each file: a hash of its path, where the image has that path, and its content
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
        if path in self._folders:
            return _FOLDER
        index = self._index
        key = struct.pack("<H", hash(path) & 0xFFFF)
        i = index.find(key) if path[-4:] == ".mpy" else -1
        while i >= 0:
            if i % _ENTRY == 0:
                f = open(self._path, "rb")
                f.seek(index[i + 2] | index[i + 3] << 8)
                # Another path may have the same hash.
                if f.read(len(path)) == bytes((len(path) - 1,)) + path[1:].encode():
                    f.seek(self._begin + int.from_bytes(index[i + 4 : i + _ENTRY], "little"))
                    self._found = path
                    self._file = f
                    return _FILE
                f.close()
            i = index.find(key, i + 1)
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
