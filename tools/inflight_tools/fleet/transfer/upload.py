"""From a collector's folder to object storage.

A file is read, and written as one object: see objects.py. Only then is it deleted here, or moved into KEPT. After a
kill before that, the next start uploads it to the same object again: see names.py."""

import contextlib
import os
from pathlib import Path

from inflight_tools.fleet.lock import take_lock
from inflight_tools.fleet.transfer.names import ENDING, Blocked, check_name, object_name
from inflight_tools.fleet.transfer.objects import STAGING

KEPT = "uploaded"  # folder in the landing folder


class Upload:
    """Uploads the finished landing files in the folder `landing` to `objects`, an Objects. keep: move them into KEPT
    then, rather than delete them. Raises Busy; ValueError if `objects` are in the landing folder."""

    name, done = "upload", "uploaded"

    def __init__(self, landing, objects, keep):
        self._landing, self._objects, self._keep = Path(landing), objects, keep
        if not self._landing.is_dir():
            raise FileNotFoundError(f"there is no folder {landing}: has `inflight fleet collect` run?")
        objects.check_apart(landing, STAGING)
        if keep:
            (self._landing / KEPT).mkdir(exist_ok=True)
        busy = f"another `inflight fleet upload` has the folder {landing}: stop it first"
        self._lock = take_lock(self._landing / ".upload.lock", busy)

    def names(self):
        """{name: bytes}. It raises the error of a storage that refuses even if there is nothing to upload."""
        self._objects.open()
        found = {}
        for entry in os.scandir(self._landing):
            with contextlib.suppress(FileNotFoundError):  # taken away meanwhile
                if entry.name.endswith(ENDING) and not entry.name.startswith(".") and entry.is_file():
                    found[entry.name] = entry.stat().st_size
        return found

    def move(self, name):
        """Returns the bytes uploaded; None if somebody has taken the file away. Raises Blocked if it cannot be read, or
        not have such a name, and as Objects do."""
        path = self._landing / name
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as e:
            raise Blocked(f"the file {name!a} cannot be read: {e.strerror}") from None
        to = object_name(name, content)
        check_name(to)
        self._objects.write(to, content)
        if self._keep:
            path.replace(self._landing / KEPT / name)
        else:
            path.unlink(missing_ok=True)
        return len(content)

    def close(self):
        os.close(self._lock)
