# A slot: the image of one release in a file, and how it gets there. Loaded while a release is fetched.
#
# The image is its index and, one after the other, the files that the index lists. In the index each file has a length
# byte and its path, its size (4 bytes, little endian) and its SHA-256. What is in the image already is not fetched
# again, and what the running application has is copied: whatever stopped the fetch, it goes on where it was.

import hashlib
import os
import sys

from files import kept_json
from inflight.compat import const

_PIECE = const(512)
_SPARE = const(4)  # blocks, for what littlefs needs while it moves things
_BESIDE = ("image", "keys", "errors", "reason")  # suffixes of the files of a slot; the image comes first
_KEPT = ("image", "launch", "starting", "trial", "update_record")  # of the application in /lib: they start every other


class Damaged(Exception):
    """A file is not what the release says."""


def _size(path):
    try:
        return os.stat(path)[6]
    except OSError:
        return -1


def _pieces(f, size):
    # The next `size` bytes of a file, in pieces that share one buffer; fewer if it ends.
    piece = memoryview(bytearray(min(size, _PIECE)))
    while size:
        n = f.readinto(piece[: min(size, _PIECE)])
        if not n:
            return
        yield piece[:n]
        size -= n


def _digest(f, size):
    sha = hashlib.sha256()
    for piece in _pieces(f, size):
        sha.update(piece)
    return sha.digest()


def erase(place):
    """Removes the files of the slot `place`."""
    for suffix in _BESIDE:
        path = "%s.%s" % (place, suffix)
        if _size(path) >= 0:
            os.remove(path)


def _blocks(paths, unit):
    # What files take; littlefs keeps small ones in their folder.
    sizes = [_size(path) for path in paths]
    return sum(-(-size // unit) for size in sizes if size > unit >> 3)


def space(place):
    """(bytes of a block, blocks that an image may take in the slot `place` when that is blank)."""
    found = os.statvfs(place.rpartition("/")[0] or "/")
    return found[0], found[4] - _SPARE + _blocks((place + ".image",), found[0])


class Slot:
    """The slot `place`, for an image whose index has `index_size` bytes and SHA-256 `index_digest`."""

    def __init__(self, place, index_size, index_digest):
        self._place = place
        self._path = place + ".image"
        self._file = None
        self._failures = 0
        self.complete = False  # the whole image is there
        self.waiting = False  # for bytes of the image
        self._index_size = index_size
        self._entry = 0  # of the index: where the next one is
        self._begin(None, index_size, index_digest, 0)
        if _size(self._path) < 0:
            self._clear()

    def _clear(self):
        # What came with another index goes with its image: the number of its release may be the same.
        erase(self._place)
        open(self._path, "wb").close()

    # --- the part that is fetched: the index, then each file ---

    def _begin(self, name, size, digest, at):
        # `at`: where it begins in the image.
        self._name, self._wanted, self._at, self._end = name, digest, at, at + size
        self._have = at

    @property
    def wanted(self):
        """(offset in the image, bytes) of what is missing of the present part."""
        return self._have, self._end - self._have

    def step(self):
        """Goes on to the next part that has to be fetched, one at a time. Raises Damaged, OSError."""
        if self.waiting or self.complete:
            return
        have = _size(self._path)
        if have < self._end and (have > self._at or not self._copied()):
            self._have = have
            self.waiting = True
        elif self._is_right():
            self._next()
        else:
            self._discard()
            self.waiting = True

    def _is_right(self):
        with open(self._path, "rb") as f:
            f.seek(self._at)
            return _digest(f, self._end - self._at) == self._wanted

    def _discard(self):
        # Of another release, or damaged: it is fetched again, over what is there.
        self._have = self._at
        if not self._name:
            self._clear()

    def _copied(self):
        # True if the running application has the file, which is copied.
        size = self._end - self._at
        for folder in sys.path if self._name else ():
            try:
                f = open("%s/%s" % (folder, self._name), "rb")
            except OSError:
                continue
            with f:
                start = f.tell()  # in an image, it is not 0
                if _digest(f, size) == self._wanted:
                    f.seek(start)
                    for piece in _pieces(f, size):
                        self._write(piece)
                    self.close()
                    return True
        return False

    def take(self, offset, data):
        """Bytes of the image. Those that are not the next ones are ignored. Returns True if they were. Raises Damaged,
        OSError."""
        if not self.waiting or offset != self._have or len(data) > self._end - offset:
            return False
        self._write(data)
        if self._have == self._end:
            self._finish()
        return True

    def _write(self, data):
        if not self._file:
            self._file = open(self._path, "r+b")
            self._file.seek(self._have)
        self._file.write(data)
        self._have += len(data)

    def _finish(self):
        self.close()
        self.waiting = False
        if self._is_right():
            self._next()
            return
        self._discard()
        self._failures += 1
        if self._failures > 1:
            raise Damaged(self._name or "index")

    def close(self):
        """Makes durable what has come."""
        if self._file:
            self._file.flush()
            self._file.close()
            self._file = None

    # --- all parts ---

    def _next(self):
        self._failures = 0
        if self._entry == self._index_size:
            self.complete = True
            return
        # Opened each time: a reader that stays open does not see what is written meanwhile.
        with open(self._path, "rb") as f:
            name, size, digest = self._read_entry(f)
        self._begin(name, size, digest, self._end)

    def _read_entry(self, f):
        f.seek(self._entry)
        name = f.read(f.read(1)[0])
        size = int.from_bytes(f.read(4), "little")
        self._entry += len(name) + 37
        return str(name, "utf-8"), size, f.read(32)

    def verify(self):
        """Reads every file once more. Raises Damaged."""
        with open(self._path, "rb") as f:
            for name, size, digest in self._files(f):
                if _digest(f, size) != digest:
                    raise Damaged(name)

    def extract(self, name):
        """The content of a small file, as text; None if the image has none of this name."""
        with open(self._path, "rb") as f:
            for found, size, _ in self._files(f):
                if found == name:
                    return str(f.read(size), "utf-8")
        return None

    def _files(self, f):
        # Yields (name, size, digest) of each file of the image `f`, which is where it begins.
        self._entry, at = 0, self._index_size
        while self._entry < self._index_size:
            entry = self._read_entry(f)
            f.seek(at)
            yield entry
            at += entry[1]


def reclaim(unit, blocks, record_path="/lib/inflight.json"):
    """Removes the application that a cable brought, whose files `inflight board` recorded there, and its image, if that
    gives `blocks` of `unit` bytes. The good one is in a slot. Returns True if it did."""
    recorded = kept_json(record_path, ())
    if not recorded:
        return False  # it is frozen, or was installed in another way
    folder = record_path.rpartition("/")[0] + "/"
    paths = [path for path in recorded if path.startswith(folder) and path[len(folder) :].split(".")[0] not in _KEPT]
    paths = [path for path in paths + [folder.rpartition("lib/")[0] + "app.image"] if _size(path) >= 0]
    if _blocks(paths, unit) < blocks:
        return False
    for path in paths:
        os.remove(path)
    return True
