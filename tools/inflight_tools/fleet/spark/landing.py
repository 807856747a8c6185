"""Landing files that no batch has read."""

import contextlib
import json
from urllib.parse import unquote

from .storage import files_in

STALE_S = 600  # a landing file that waits for longer, or is dated in the future by more, is worth an alarm
UNREADABLE = "unreadable"  # folder in that of landing files, for those that Spark could not read


def listed(entry):
    """The name of the landing file that an entry of Spark's list of files is about: there it is part of a URI."""
    return unquote(entry["path"].rpartition("/")[2])


class LandingFiles:
    """The landing files in the folder or URI `landing`, from which Spark makes the tables in `root`. files: the Folder
    of a folder or URI, by default without Spark."""

    def __init__(self, landing, root, files=files_in):
        self._landing, self._checkpoint = files(landing), files(f"{root}/_checkpoint")

    def unread(self):
        """{name: (bytes, time of its last change in s since 1970)} of the landing files that are in no finished batch,
        with those that could not be read. Spark moves a file away some time after its batch."""
        present = self._landing.glob("*.ndjson")
        for name in self._read(list(present)):
            present.pop(name, None)
        aside = self._landing.glob(f"{UNREADABLE}/*.ndjson")
        return present | {f"{UNREADABLE}/{name}": told for name, told in aside.items()}

    def _read(self, names):
        """Those of the files `names` that are in finished batches."""
        last = self._last_read()
        if not names or last is None:
            return []
        found = set()
        for file in self._checkpoint.glob("sources/0/*"):
            with contextlib.suppress(FileNotFoundError):  # Spark deletes those that it has merged
                for line in self._checkpoint.text(f"sources/0/{file}").splitlines()[1:]:  # behind a version
                    entry = json.loads(line)
                    if entry["batchId"] <= last:
                        found.add(listed(entry))
        return found.intersection(names)

    def _last_read(self):
        """The number, in Spark's list of files, of the last ones that a finished batch has read. None if there is none,
        or if the checkpoint cannot be read."""
        offsets = f"offsets/{self._checkpoint.last_number('commits')}"
        try:
            return int(json.loads(self._checkpoint.text(offsets).splitlines()[-1])["logOffset"])
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return None


def summary(unread, now):
    """Sums of what LandingFiles.unread() returns: {"files", "bytes", "stale"}; stale: how many of them are worth an
    alarm at the time `now`, in s since 1970."""
    stale = sum(abs(now - changed) > STALE_S for _, changed in unread.values())
    return {"files": len(unread), "bytes": sum(size for size, _ in unread.values()), "stale": stale}


class Watch:
    """Finds landing files that stay unread, whatever their dates are."""

    def __init__(self, landing):
        self.unread = landing.unread
        self._before = self.unread()

    def stuck(self):
        """The names of files that are unread, and were when this was called before, without those set aside."""
        now = self.unread()
        stuck = now.keys() & self._before.keys()
        self._before = now
        return sorted(name for name in stuck if "/" not in name)
