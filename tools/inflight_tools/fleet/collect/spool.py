"""Landing files. Each is written as a hidden file first, the spool. The contract:

- When append() returns, its lines are durable. A landing file contains whole lines only.
- A file gets its final name by rename, and never changes afterwards.
- No name is used twice.
"""

import os
import re
import time
from pathlib import Path

from inflight_tools.fleet.lock import take_lock
from inflight_tools.payload import fields_of


def make_folder(folder, sync=os.fsync):
    """Makes a folder, and those above it that are missing, durably. `sync` makes one durable."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        sync(parent)
        os.close(parent)


class Spool:
    """The spool of the collector `name` in `folder`. After `size` bytes or `age` seconds due() is true: call roll().
    Spools of an earlier run are finished first. `sync` makes a file durable. Raises Busy. Any method may raise
    OSError; the same call may then be repeated."""

    def __init__(self, folder, name, size=16 << 20, age=10.0, sync=os.fsync):
        self._folder, self._name = Path(folder), name
        self._most, self._age, self._sync = size, age, sync
        self.files = 0  # finished files, recovered ones included
        self.started = 0  # ms since 1970; more than at any earlier start in this folder
        self._number = 0
        self._fd = None
        self._size = 0  # durable bytes of the spool
        self._dirty = False  # the spool may contain more bytes, from a failed append()
        make_folder(self._folder, sync)
        self._folder_fd = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        self._lock = take_lock(
            self._folder / f".{name}.lock",
            f"another collector named {name} is writing to {self._folder}: stop it, or take another name",
        )
        self.started = self._stamp()
        self._recover()

    def _stamp(self):
        """Returns the time of this start in ms, but at least the previous start's plus one: the clock may go back, and
        readers skip a file whose name they know."""
        before = os.pread(self._lock, 32, 0)
        stamp = max(time.time_ns() // 1_000_000, int(before) + 1 if before.strip().isdigit() else 0)
        os.pwrite(self._lock, b"%d\n" % stamp, 0)
        os.fsync(self._lock)
        return stamp

    # --- recovery ---

    def _recover(self):
        ours = re.compile(rf"\.({re.escape(self._name)}-\d+-\d+)\.spool")
        for path in sorted(self._folder.iterdir()):
            found = ours.fullmatch(path.name)
            if not found or path.is_symlink():  # a collector makes files: a link may lead to another file
                continue
            if whole := _whole_lines(path):
                with open(path, "r+b") as file:
                    file.truncate(whole)
                    self._sync(file.fileno())
                self._rename(path, found[1])
            else:
                path.unlink()

    def _rename(self, path, stem):
        final = self._folder / f"{stem}.ndjson"
        if final.exists():
            raise FileExistsError(f"{final} exists: names must be unique; move either it or {path} away")
        path.rename(final)
        self.files += 1

    # --- the spool ---

    def append(self, lines):
        """Makes `lines` durable, bytes of whole lines. If it raises, no reader will see any of them."""
        if self._fd is None:
            self._open()
        self._truncate()
        self._dirty = True
        with memoryview(lines) as rest:
            done = 0
            while done < len(rest):
                done += os.write(self._fd, rest[done:])
        self._sync(self._fd)
        self._dirty = False
        self._size += len(lines)

    def _open(self):
        path = self._path()
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            self._sync(self._folder_fd)  # the file's name must be durable, too
        except OSError:
            os.close(fd)
            path.unlink()
            raise
        self._fd, self._size, self._dirty = fd, 0, False
        self._opened = time.monotonic()

    def _path(self):
        return self._folder / f".{self._stem()}.spool"

    def _stem(self):
        return f"{self._name}-{self.started}-{self._number:06}"

    def _truncate(self):
        """Cuts off the bytes of a failed append(). Also if only its sync failed: nobody knows which bytes are on disk
        then, and a second sync would report success."""
        if self._dirty:
            os.ftruncate(self._fd, self._size)
            self._sync(self._fd)
            self._dirty = False

    def due(self):
        """Whether the spool has lines, and is large or old enough."""
        return bool(self._size) and (self._size >= self._most or time.monotonic() - self._opened >= self._age)

    def roll(self):
        """Makes the spool a landing file. Does nothing if it is empty."""
        if not self._size:
            return
        self._truncate()
        self._rename(self._path(), self._stem())
        os.close(self._fd)
        self._fd, self._size = None, 0
        self._number += 1
        self._sync(self._folder_fd)  # after a power cut before this, the next start repeats the rename

    def close(self):
        """Calls roll(), and releases the folder."""
        try:
            self.roll()
            if self._fd is not None:  # empty
                os.close(self._fd)
                self._path().unlink()
                self._fd = None
        finally:
            os.close(self._lock)
            os.close(self._folder_fd)


def _whole_lines(path):
    """Length of the whole lines at the start of a file. After a power cut the rest, which was never acknowledged, may
    be anything: an incomplete line, zeros, even a valid line after zeros."""
    whole = 0
    with open(path, "rb") as file:
        for raw in file:
            if not raw.endswith(b"\n"):
                break
            try:
                fields_of(raw)
            except ValueError:
                break
            whole += len(raw)
    return whole
