"""From object storage to the landing folder that Spark reads.

Each object becomes a landing file exactly once, although Spark moves files away when it has read them:
- It is written to a hidden file first, and compared with its name.
- Its name goes into a database, the record, in one durable transaction. From then on it counts as downloaded.
- The hidden file gets its final name, and the object is deleted, or moved into KEPT. After a kill in between, the next
  start finishes both, and so does the next attempt after an error: a hidden file whose name is in the record gets its
  final name, and an object whose name is there is not downloaded again.
"""

import contextlib
import os
import sqlite3
from pathlib import Path

from inflight_tools.fleet.lock import take_lock
from inflight_tools.fleet.transfer.names import ENDING, PART, Blocked, is_object, is_whole, part_name
from inflight_tools.fleet.transfer.objects import STAGING

KEPT = "downloaded"  # folder below that of the objects
RECORD = ".downloaded.db"


class Download:
    """Downloads the landing files of `objects`, an Objects, into the folder `landing`. keep: move them into KEPT then,
    rather than delete them. Other files there stay, which `say` reports once. Raises Busy; ValueError if `objects` are
    in the landing folder; OSError if the record cannot be read."""

    name, done = "download", "downloaded"

    def __init__(self, landing, objects, keep, say):
        self._landing, self._objects, self._keep, self._say = Path(landing), objects, keep, say
        self._others = 0
        objects.check_apart(landing, STAGING, KEPT)
        self._landing.mkdir(parents=True, exist_ok=True)
        busy = f"another `inflight fleet download` has the folder {landing}: stop it first"
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, take_lock(self._landing / ".download.lock", busy))
            self._folder = os.open(self._landing, os.O_RDONLY | os.O_DIRECTORY)
            opened.callback(os.close, self._folder)
            try:
                self.record = sqlite3.connect(self._landing / RECORD, isolation_level=None)
                opened.callback(self._close_record)
                self.record.execute("PRAGMA synchronous = EXTRA")  # durable when execute() returns
                self.record.execute("CREATE TABLE IF NOT EXISTS downloaded (name TEXT PRIMARY KEY) WITHOUT ROWID")
            except sqlite3.DatabaseError as e:
                raise OSError(f"the record {self._landing / RECORD} cannot be used: {e}") from None
            self._recover()
            self._opened = opened.pop_all()

    def _close_record(self):
        with contextlib.suppress(sqlite3.Error):
            self.record.close()

    def _recover(self):
        for part in self._landing.glob(f".*{ENDING}{PART}"):
            name = part.name[1 : -len(PART)]
            if self._has(name):
                self._finish(part, name)
            else:
                part.unlink()

    def _has(self, name):
        return self.record.execute("SELECT 1 FROM downloaded WHERE name = ?", (name,)).fetchone() is not None

    def names(self):
        """{name: bytes}"""
        found = self._objects.names()
        ours = {name: size for name, size in found.items() if is_object(name)}
        if len(found) - len(ours) > self._others:
            self._others = len(found) - len(ours)
            self._say(f"{self._others} files in {self._objects.uri} are not of `inflight fleet upload`: left alone")
        return ours

    def move(self, name):
        """Returns the bytes downloaded; None if it was downloaded before, or if the object is gone. Raises Blocked if
        it is not what was uploaded, and as Objects do."""
        size, part = None, self._landing / part_name(name)
        if not self._has(name):
            try:
                content = self._objects.read(name)
            except FileNotFoundError:
                return None
            if not is_whole(name, content):
                raise Blocked(
                    f"{self._objects.uri}/{name} is not what was uploaded: its SHA-256 is not that in its name. Upload "
                    "the file again, or remove the object"
                )
            self._store(part, name, content)
        if part.exists():  # also if an error came between the record and here
            size = part.stat().st_size
            self._finish(part, name)
        if self._keep:
            self._objects.move(name, KEPT)
        else:
            self._objects.delete(name)
        return size

    def _store(self, part, name, content):
        part.unlink(missing_ok=True)
        with part.open("xb") as file:  # a link of somebody else is not followed
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.fsync(self._folder)
        try:
            self.record.execute("INSERT INTO downloaded VALUES (?)", (name,))
        except sqlite3.Error as e:  # the disk is full
            raise OSError(f"the record {self._landing / RECORD} cannot be written: {e}") from None

    def _finish(self, part, name):
        part.rename(self._landing / name)
        os.fsync(self._folder)

    def close(self):
        self._opened.close()
