# A slot: the folder of one application, and how a release gets there. Loaded while a release is fetched.
#
# The image of a release is its index and, one after the other, the files that the index lists. In the index each file
# has a length byte and its path, its size (4 bytes, little endian) and its SHA-256. What is in the slot already, or in
# the running application, is not fetched again: whatever stopped the fetch, it goes on where it was.

import hashlib
import os
import sys

from inflight.compat import const

INDEX = "index"
_DIRECTORY = const(0x4000)
_PIECE = const(512)
_SPARE = const(4)  # blocks, for what littlefs needs while it moves things
_KEPT = ("launch", "starting", "trial", "update_record")  # of the application in /lib: they start every other one


class Damaged(Exception):
    """A file is not what the release says."""


def _size(path):
    try:
        return os.stat(path)[6]
    except OSError:
        return -1


def _digest(path):
    # SHA-256 of a file; None if there is none.
    try:
        f = open(path, "rb")
    except OSError:
        return None
    sha = hashlib.sha256()
    piece = bytearray(_PIECE)
    with f:
        n = f.readinto(piece)
        while n:
            sha.update(memoryview(piece)[:n])
            n = f.readinto(piece)
    return sha.digest()


def _walk(folder):
    # Paths of all files and folders below, a folder after its files.
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = "%s/%s" % (folder, name)
        if os.stat(path)[0] & _DIRECTORY:
            yield from _walk(path)
        yield path


def erase(folder):
    """Removes a folder with all that is in it."""
    for path in _walk(folder):
        _remove(path)
    if _is_folder(folder):
        os.rmdir(folder)


def _is_folder(path):
    try:
        return os.stat(path)[0] & _DIRECTORY
    except OSError:
        return False


def _remove(path):
    if _is_folder(path):
        os.rmdir(path)
    else:
        os.remove(path)


def _blocks(paths, unit):
    # What files take; littlefs keeps small ones in their folder.
    sizes = [_size(path) for path in paths if not _is_folder(path)]
    return sum(-(-size // unit) for size in sizes if size > unit >> 3)


def room(folder, slot):
    """(bytes of a block, blocks that a release may take in `slot` when it is blank)."""
    found = os.statvfs(folder or "/")
    return found[0], found[4] - _SPARE + _blocks(_walk("%s/%s" % (folder, slot)), found[0])


def make_folder(path):
    if not _is_folder(path):
        os.mkdir(path)


class Slot:
    """The folder at `path`, for a release whose index has `index_size` bytes and SHA-256 `index_digest`."""

    def __init__(self, path, index_size, index_digest):
        self._path = path
        self._entries = None  # of the index, when it is there
        self._failures = 0
        self._file = None
        make_folder(path)
        self._begin(INDEX, index_size, index_digest, 0)

    # --- the file that is fetched ---

    def _begin(self, name, size, digest, at):
        # `at`: where it begins in the image.
        self._name, self._size, self._wanted, self._at = name, size, digest, at
        self._have = 0
        self.complete = False  # all files are there
        self.waiting = False  # for bytes from the image

    @property
    def wanted(self):
        """(offset in the image, bytes) of what is missing of the present file."""
        return self._at + self._have, self._size - self._have

    def _place(self):
        return "%s/%s" % (self._path, self._name)

    def step(self):
        """Goes on to the next file that has to be fetched, one file at a time. Raises Damaged, OSError."""
        if self.waiting or self.complete:
            return
        path = self._place()
        if _digest(path) == self._wanted or self._copied(path):
            self._next()
            return
        have = _size(path)
        self._have = max(have, 0)
        # Of another release, or damaged; without an index a power cut may have ended _discard().
        if self._have >= self._size or (have < 0 and self._name == INDEX):
            self._discard()
            self._make_folders()
            open(path, "wb").close()
        self.waiting = self._size > 0

    def _copied(self, path):
        # True if the file is in the running application.
        if self._name == INDEX:
            return False
        for folder in sys.path:
            source = "%s/%s" % (folder, self._name)
            if folder[:1] == "/" and _size(source) == self._size and _digest(source) == self._wanted:
                self._copy(source, path)
                return _digest(path) == self._wanted
        return False

    def _copy(self, source, path):
        self._make_folders()
        piece = bytearray(_PIECE)
        with open(source, "rb") as f, open(path, "wb") as to:
            n = f.readinto(piece)
            while n:
                to.write(memoryview(piece)[:n])
                n = f.readinto(piece)
            to.flush()

    def _make_folders(self):
        parts = self._name.split("/")
        for i in range(1, len(parts)):
            make_folder("%s/%s" % (self._path, "/".join(parts[:i])))

    def take(self, offset, data):
        """Bytes of the image. Those that are not the next ones are ignored. Returns True if they were. Raises Damaged,
        OSError."""
        if not self.waiting or offset != self._at + self._have or len(data) > self._size - self._have:
            return False
        if not self._file:
            self._make_folders()
            self._file = open(self._place(), "ab")
        self._file.write(data)
        self._have += len(data)
        if self._have == self._size:
            self._finish()
        return True

    def _finish(self):
        self.close()
        self.waiting = False
        if _digest(self._place()) == self._wanted:
            self._next()
            return
        self._discard()  # once more: its beginning may be from another release
        self._failures += 1
        if self._failures > 1:
            raise Damaged(self._name)

    def _discard(self):
        # Removes the file. What came with another index goes with it: the number of its release may be the same.
        self._have = 0
        if self._name == INDEX:
            erase(self._path)
            make_folder(self._path)
        elif _size(self._place()) >= 0:
            os.remove(self._place())

    def close(self):
        """Makes durable what has come."""
        if self._file:
            self._file.flush()
            self._file.close()
            self._file = None

    # --- all files ---

    def _next(self):
        if not self._entries:
            self._entries = self._read_index(self._size)
        self._failures = 0
        try:
            self._begin(*next(self._entries))
        except StopIteration:
            self._name = None
            self.complete = True

    def _read_index(self, at):
        with open("%s/%s" % (self._path, INDEX), "rb") as f:
            n = f.read(1)
            while n:
                name = str(f.read(n[0]), "utf-8")
                if name[:1] == "/" or ".." in name:
                    raise Damaged(name)
                size = int.from_bytes(f.read(4), "little")
                yield name, size, f.read(32), at
                at += size
                n = f.read(1)

    def verify(self):
        """Reads every file once more. Raises Damaged."""
        for name, _, digest, _ in self._read_index(0):
            if _digest("%s/%s" % (self._path, name)) != digest:
                raise Damaged(name)


def reclaim(unit, blocks, record_path="/lib/inflight.json"):
    """Removes the application in /lib, whose files `inflight board` recorded there, if that gives `blocks` of `unit`
    bytes. The good one is in a slot. Returns True if it did."""
    import json

    try:
        with open(record_path) as f:
            recorded = json.loads(f.read())
    except (OSError, ValueError):
        return False  # it is frozen, or was installed in another way
    folder = record_path.rpartition("/")[0] + "/"
    paths = [path for path in recorded if path.startswith(folder) and _size(path) >= 0]
    paths = [path for path in paths if path[len(folder) :].split(".")[0] not in _KEPT]
    if _blocks(paths, unit) < blocks:
        return False
    for path in paths:
        os.remove(path)
    return True
