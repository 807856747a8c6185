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


def mount(path, place):
    """Mounts the image in the file `path` as the folder `place`. Raises OSError, or ValueError if it is no image."""
    vfs.mount(_Image(path), place)


class _Image:
    # The methods that MicroPython calls of a file system. All that is in an image are compiled modules, some of them in
    # folders.

    def __init__(self, path):
        self._path = path
        self._folders = []
        found = [b"\0"]  # then of each file "/", its path, a 0, its offset behind the index, whose last byte is 0
        size = os.stat(path)[6]
        at = total = 0
        with open(path, "rb") as f:
            n = (f.read(1) or b"\0")[0]
            while at + total < size:  # the index ends where its files are all that is left
                entry = f.read(n + 37)  # its path, size and SHA-256, and the length of the next path
                name = b"/" + entry[:n]
                found.append(name + struct.pack("<BI", 0, total))
                folder = name[: max(0, name.rfind(b"/"))]
                if folder and folder not in self._folders:
                    self._folders.append(folder)
                total += int.from_bytes(entry[n : n + 4], "little")
                at += n + 37
                n = (entry[-1:] or b"\0")[0]
        if at + total != size:
            raise ValueError("not whole")
        self._begin = at
        self._index = b"".join(found)

    def mount(self, readonly, mkfs):
        pass

    def umount(self):
        pass

    def ilistdir(self, path):
        return iter(())  # whoever lists all files finds the image itself

    # Modules are imported deep within the application, and a Pico has 8 KB of stack: these call nothing of ours. The
    # importer asks for each module's folder, then for its source, then for what is there.

    def stat(self, path):
        path = path.encode()
        if path in self._folders:
            return _FOLDER
        if path[-4:] == b".mpy" and self._index.find(b"\0" + path + b"\0") >= 0:
            return _FILE
        raise OSError(_NO_ENTRY)

    def open(self, path, mode):
        # The image itself, where the file begins. A compiled module tells the importer where it ends; whoever else
        # reads knows the size.
        path = b"\0" + path.encode() + b"\0"
        at = self._index.find(path) + len(path)
        if at < len(path):
            raise OSError(_NO_ENTRY)
        f = open(self._path, "rb")
        f.seek(self._begin + int.from_bytes(self._index[at : at + 4], "little"))
        return f
