"""What a power cut has left: repaired before a query begins, from the landing files in `landed`.

What is durable, in this order
------------------------------
1. Spark's list of the files of a batch, before the batch writes anything.
2. The files of each table, before the commit that names them; each commit, before the next one. The ledger is the last.
3. Only then does Spark record the batch's end, and moves its landing files to `landed`.

So a power cut leaves a last commit, or a last file of the checkpoint, that is empty or torn, and nothing else. It is
deleted, and the batch is repeated, as after any other crash.

Where more is missing (a disk that lost what it had acknowledged; tables of a version that did not make batches durable)
all tables go back to the last batch that each of them has whole. The landing files of the batches behind it are moved
back, and a new checkpoint begins with them. What was begun is in pipeline.json, so a start that is killed is completed
by the next one."""

import binascii
import contextlib
import json
import os
import re
import uuid
from pathlib import Path

from inflight_tools.fleet.columns import FACTS
from inflight_tools.fleet.delta import (
    ANEW,
    BATCHES,
    GONE,
    LANDED,
    LOG,
    TOLD,
    WrongTables,
    batch_of,
    columns_of,
    counted,
    differences,
    lacking,
    last_batch,
    opened,
    opened_together,
)
from inflight_tools.output import log

from .landing import UNREADABLE, listed
from .storage import ARCHIVE, sync

TABLES = ("ledger", "minutes", "clocks", *FACTS)
CHECKPOINT = "_checkpoint"  # Spark's, beside the tables
NOTES = "pipeline.json"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_HINT = "_last_checkpoint"
_SUMS = re.compile(r"\.(\d+(\.compact)?)\.crc")
_LISTED = 10_000  # so many names stay in Spark's list of files: repair() needs those of a few batches
_LIST_BYTES = 4 << 20  # a list of fewer is left as it is
_PARQUET = b"PAR1"  # the first and the last bytes of such a file


def _is_parquet(path, size=None):
    """Whether it looks like a whole Parquet file. `size`: that which it should have."""
    try:
        with open(path, "rb") as file:
            first, end = file.read(len(_PARQUET)), file.seek(0, os.SEEK_END)
            file.seek(max(0, end - len(_PARQUET)))
            return first == file.read() == _PARQUET and size in (None, end)
    except FileNotFoundError:
        return False


def _delete(path):
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum


def _objects(path, behind=0):
    """The JSON objects of a file, one in each line, the first `behind` lines left out. ValueError if it is torn."""
    lines = path.read_text(encoding="utf-8").split("\n")[behind:]
    found = [json.loads(line) for line in lines if line]
    if not found or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{path} is torn")
    return found


# --- the log of a table ---


class _Log:
    """The log of a table in the folder `table` of this machine."""

    def __init__(self, table):
        self._folder = Path(table, LOG)

    def _numbers(self, pattern):
        names = os.listdir(self._folder) if self._folder.is_dir() else ()
        return sorted(int(found[1]) for name in names if (found := pattern.fullmatch(name)))

    def _commit(self, version):
        return self._folder / f"{version:020}.json"

    def _checkpoint(self, version):
        return self._folder / f"{version:020}.checkpoint.parquet"

    def drop_torn(self):
        """Deletes what a power cut has torn: commits from the first torn one on, checkpoints, and the hint that names
        one. Returns how many commits it deleted."""
        commits, checkpoints = self._numbers(_COMMIT), self._numbers(_CHECKPOINT)
        whole = [version for version in checkpoints if _is_parquet(self._checkpoint(version))]
        if not whole and 0 not in commits:
            return 0  # nothing can be read without the others: it is told when the table is opened
        first = self._first_torn(max(whole, default=-1) + 1)
        dropped = [version for version in commits if version >= first]
        torn = [version for version in checkpoints if version not in whole]
        for version in torn:
            _delete(self._checkpoint(version))
        self._drop_hint()
        for version in reversed(dropped):  # without a gap, whenever this is killed
            _delete(self._commit(version))
        if torn or dropped:
            sync(self._folder)
        return len(dropped)

    def _first_torn(self, version):
        """The first version from this one on that is torn or missing: commits behind it cannot be trusted."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            while self.actions(version):
                version += 1
        return version

    def _drop_hint(self):
        hint = self._folder / _HINT
        try:
            version = _objects(hint)[0]["version"]
        except FileNotFoundError:
            return
        except (ValueError, LookupError):
            version = None
        if version is None or not self._checkpoint(version).exists():
            _delete(hint)

    def actions(self, version):
        """The actions of a commit, as dicts. ValueError if it is torn."""
        return _objects(self._commit(version))

    def batches(self):
        """Yields (version, {name: number} of its transactions, names of its landing files or None) of the commits that
        are there, the last one first."""
        for version in reversed(self._numbers(_COMMIT)):
            actions = self.actions(version)
            told = {one["txn"]["appId"]: one["txn"]["version"] for one in actions if "txn" in one}
            landed = [one["commitInfo"][LANDED] for one in actions if LANDED in one.get("commitInfo", ())]
            yield version, told, json.loads(landed[0]) if landed else None

    def landed_behind(self, last):
        """{number of a batch above `last`: names of its landing files, None if they are unknown}"""
        found = {}
        for _, told, landed in self.batches():
            if (batch := told.get(BATCHES)) is not None:
                if batch <= last:
                    break
                found[batch] = landed
        return found

    def version_of(self, last):
        """The newest version without batches above number `last`. Raises WrongTables if nothing tells it any more."""
        wanted = None
        for version, told, _ in self.batches():
            wanted = version if wanted is None else wanted
            if BATCHES in told:
                if told[BATCHES] <= last:
                    return wanted
                wanted = version - 1
        if wanted is None or wanted < 0:
            raise WrongTables(f"{self._folder} has no version before batch {last + 1} any more: {ANEW}")
        return wanted


# --- Spark's checkpoint ---


class Checkpoint:
    """Spark's checkpoint in a folder of this machine."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def _file(self, kind, number):
        plain = self.folder / kind / str(number)
        return plain if plain.exists() else plain.with_name(f"{number}.compact")

    def _numbers(self, kind):
        folder = self.folder / kind
        names = [name.removesuffix(".compact") for name in os.listdir(folder)] if folder.is_dir() else ()
        return sorted({int(name) for name in names if name.isdigit()})

    def last(self, kind):
        """The highest number in "offsets" or "commits", -1 if there is none."""
        return max(self._numbers(kind), default=-1)

    def drop_torn(self):
        """Deletes the last files that are torn, and those that need one of them."""
        if not self.folder.is_dir():
            return
        # In this order: another driver may be writing them, in the other one.
        commits, offsets, lists = map(self._numbers, ("commits", "offsets", "sources/0"))
        lists = self._drop("sources/0", lists, self._first_torn(lists))
        offsets = self._drop_torn("offsets", offsets)
        while offsets and self.listed_by(offsets[-1]) > max(lists, default=-1):
            offsets = self._drop("offsets", offsets, offsets[-1])
        commits = self._drop("commits", commits, max(offsets, default=-1) + 1)
        self._drop_torn("commits", commits)
        for kind in ("commits", "offsets", "sources/0"):
            self._drop_lone_sums(kind)
        if not self._is_whole(metadata := self.folder / "metadata", 0):
            _delete(metadata)
            if offsets:  # Spark refuses these without an identity; any one does
                metadata.write_text(json.dumps({"id": str(uuid.uuid4())}))
        sync(self.folder)

    def _drop(self, kind, numbers, first):
        """Deletes the files with these numbers from the number `first` on. Returns the numbers that are left."""
        for number in reversed(numbers):
            if number >= first:
                _delete(self._file(kind, number))
        return [number for number in numbers if number < first]

    def _drop_torn(self, kind, numbers):
        """Deletes the last ones that are torn. Returns the numbers that are left."""
        while numbers and not self._is_whole(self._file(kind, numbers[-1])):
            numbers = self._drop(kind, numbers, numbers[-1])
        return numbers

    def _drop_lone_sums(self, kind):
        """Deletes checksums without their files: Spark does not replace one, and takes it for another query's."""
        folder = self.folder / kind
        for name in os.listdir(folder) if folder.is_dir() else ():
            if (of := _SUMS.fullmatch(name)) and not (folder / of[1]).exists():
                (folder / name).unlink(missing_ok=True)

    def _merged(self, lists):
        """Yields the numbers of the lists that have all before them, the last one first."""
        return (number for number in reversed(lists) if self._file("sources/0", number).suffix)

    def _first_torn(self, lists):
        """The number of the first list of files that is torn or missing, behind the last one that has all before it."""
        whole = (number for number in self._merged(lists) if self._is_whole(self._file("sources/0", number)))
        number = next(whole, -1) + 1
        while number in lists and self._is_whole(self._file("sources/0", number)):
            number += 1
        return number

    def _is_whole(self, path, behind=1):
        """Whether a file is whole. A checksum that does not fit a whole file is torn itself: it is deleted."""
        try:
            _objects(path, behind)
        except (FileNotFoundError, ValueError):
            return False
        if not _fits(path):
            path.with_name(f".{path.name}.crc").unlink()
        return True

    def listed_by(self, batch):
        """The number, in the list of files, of the last ones that a batch reads; -1 before the first batch. Raises
        WrongTables."""
        if batch < 0:
            return -1
        file = self._file("offsets", batch)
        try:
            return int(_objects(file, 1)[-1]["logOffset"])
        except FileNotFoundError:
            return -1
        except (ValueError, LookupError, TypeError):
            raise WrongTables(f"{file} is damaged: restore it, or {ANEW}") from None

    def files(self, above=-1, to=None):
        """The names of the listed files with numbers above one, up to another one."""
        found = {}
        for number in self._numbers("sources/0"):
            lines = self._file("sources/0", number).read_text(encoding="utf-8").split("\n") if number > above else ()
            for entry in map(json.loads, filter(None, reversed(lines[1:]))):
                if entry["batchId"] <= above:  # a list has those of all before it in front
                    break
                if to is None or entry["batchId"] <= to:
                    found[listed(entry)] = None
        return list(found)

    def moved(self, landing):
        """(name, text) of the lists of files that no finished batch has read, for files that are now in the folder
        `landing` and were in another one: tables and landing files may have been moved together."""
        for number in self._numbers("sources/0"):
            if number > self.listed_by(self.last("commits")):
                path, lines = self._file("sources/0", number), []
                version, *entries = filter(None, path.read_text(encoding="utf-8").split("\n"))
                for entry in map(json.loads, entries):
                    if (landing / listed(entry)).exists():
                        entry["path"] = landing.absolute().as_uri() + entry["path"][entry["path"].rindex("/") :]
                    lines.append(json.dumps(entry, separators=(",", ":")))
                if lines != entries:
                    yield path.relative_to(self.folder), "\n".join([version, *lines])

    def files_of(self, batch):
        """The names of the files that a batch reads."""
        return self.files(self.listed_by(batch - 1), self.listed_by(batch))

    def shorter_list(self, present):
        """(name, text) of Spark's last merged list of files without the names that nothing needs any more: it has all
        since the checkpoint began. None while it is short. present(): the names of the landing files that are there,
        which stay in the list, as the last ones do; Spark would read them again."""
        path = self._file("sources/0", next(self._merged(self._numbers("sources/0")), -1))
        if not path.exists() or path.stat().st_size < _LIST_BYTES:
            return None
        version, *lines = filter(None, path.read_text(encoding="utf-8").split("\n"))
        first = json.loads(lines[-_LISTED:][0])["batchId"]  # of a batch all names stay
        there = present()

        kept = [line for line in lines if (entry := json.loads(line))["batchId"] >= first or listed(entry) in there]
        return path.relative_to(self.folder), "\n".join([version, *kept])


def _fits(path):
    """Whether Hadoop's checksum of a file, if it has a whole one, is right."""
    try:
        sums = path.with_name(f".{path.name}.crc").read_bytes()
    except FileNotFoundError:
        return True
    data = path.read_bytes()
    each = int.from_bytes(sums[4:8], "big") or 1
    chunks = (data[at : at + each] for at in range(0, len(data), each))
    return sums[:4] == b"crc\0" and sums[8:] == b"".join(binascii.crc32(one).to_bytes(4, "big") for one in chunks)


# --- all together ---


def drop_torn(files):
    """Deletes what a power cut has torn beside the tables in the Storage `files`, a folder of this machine."""
    dropped = [name for name in TABLES if _Log(files.path(name)).drop_torn()]
    Checkpoint(files.path(CHECKPOINT)).drop_torn()
    if dropped:
        log(f"dropped the last commit of {', '.join(dropped)}, which a power cut has torn")


class _Found:
    """The tables as they are."""

    def __init__(self, files):
        self._tables = opened_together(files, TABLES)
        self._ledger = _Log(files.path("ledger"))
        self.last = last_batch(self._tables["ledger"])
        self.highest = max(map(last_batch, self._tables.values()))
        self._rows, self._damaged = {}, {}
        for name, table in self._tables.items():
            paths, sizes, rows = columns_of(table, "path", "size_bytes", "num_records")
            whole = [_is_parquet(files.path(f"{name}/{path}"), size) for path, size in zip(paths, sizes, strict=True)]
            batches = [batch_of(path) for path in paths]
            self._rows[name] = list(zip(batches, rows, strict=True))
            self._damaged[name] = [batch for batch, is_so in zip(batches, whole, strict=True) if not is_so]

    def whole(self):
        """The last batch up to which each table has all. Raises WrongTables if there is none any more."""
        told = {TOLD.format(name): counted(self._tables["ledger"], TOLD.format(name)) for name in TABLES}
        if self._has_all(self.last, told):
            return self.last
        for version, told, _ in self._ledger.batches():
            batch = told.get(BATCHES, -1 if version == 0 else self.last)
            if batch < self.last and self._has_all(batch, told):
                return batch
        raise WrongTables(f"{lacking(differences(self._tables))}, and nothing tells what they had before: {ANEW}")

    def _has_all(self, last, told):
        for name, table in self._tables.items():
            if any(batch <= last for batch in self._damaged[name]):
                return False
            expected = told.get(TOLD.format(name))
            rows = sum(rows for batch, rows in self._rows[name] if batch <= last) + (counted(table, GONE) or 0)
            if expected is not None and expected >= 0 and rows != expected:
                return False
        return True


def repair(files, landing, tables, noted):
    """Makes the tables whole again, if a power cut has taken more than a last commit. Returns the notes beside them:
    those that are given, or of a new checkpoint. Raises WrongTables.

    files: the Storage of the tables, and `landing`, that of the landing files: folders of this machine. tables: the
    Tables. noted: what pipeline.json says."""
    plan = noted.get("repair") or _plan(files, landing, noted.get("first", 0))
    if plan is None:
        return noted
    files.write(NOTES, json.dumps(noted | {"repair": plan}))
    for table in tables.all():
        _go_back(files, table, plan["last"])
    _move(files, landing, plan)
    files.delete(CHECKPOINT)
    noted = {name: value for name, value in noted.items() if name not in ("repair", "spark")}
    noted |= {"first": plan["last"] + 1}
    files.write(NOTES, json.dumps(noted))
    log(f"the tables lacked rows: {len(plan['again'])} landing files are read again, from batch {noted['first']} on")
    return noted


def _plan(files, landing, first):
    """What to do, as a dict: the `last` batch that stays, the names of landing files that are read `again`, and of
    those that are still in `landing` though a batch that stays has `read` them. None: nothing is to do."""
    checkpoint = Checkpoint(files.path(CHECKPOINT))
    if not checkpoint.folder.is_dir():
        return None
    ended = first + checkpoint.last("commits")  # in this order: another driver may be writing them, in the other one
    found = _Found(files)
    whole, begun = found.whole(), first + checkpoint.last("offsets")
    # Of the batches that were begun Spark repeats the last one alone, and takes files that are gone for empty ones.
    names = checkpoint.files_of(begun - first) if begun > found.last else ()
    can_go_on = found.highest <= begun <= found.last + 1 and all(_waits(landing, name) for name in names)
    if whole == found.last and ended <= found.last and can_go_on:
        return None
    last = min(whole, begun)
    listed = checkpoint.listed_by(last - first)
    again = dict.fromkeys(checkpoint.files(listed))
    for name in TABLES:
        for batch, names in _Log(files.path(name)).landed_behind(last).items():
            if names is None and batch > begun:
                raise WrongTables(
                    f"the tables have batches up to {found.highest}, but their checkpoint ends with batch {begun}, and "
                    f"nothing tells which landing files batch {batch} had read: restore {checkpoint.folder}, or {ANEW}"
                )
            again |= dict.fromkeys(names or ())
    present = landing.glob("*.ndjson").keys()
    if lost := again.keys() - present - {Path(name).name for name in files.find(ARCHIVE, "*")}:
        raise WrongTables(
            f"the tables lack rows of the batches behind {last}, and of their landing files {len(lost)} are not in "
            f"{files.path(ARCHIVE)}, for example {min(lost)}: restore them, or continue without these rows with "
            "--new-checkpoint"
        )
    read = set(checkpoint.files(to=listed)) & present - again.keys()
    return {"last": last, "again": list(again), "read": sorted(read)}


def _waits(landing, name):
    """Whether a landing file is where a batch reads it, or was set aside."""
    return any(os.path.exists(landing.path(place)) for place in (name, f"{UNREADABLE}/{name}"))


def take_back(files, tables):
    """Takes the last batch out of the tables if it is incomplete: it may be repeated with other lines."""
    if tables.last_batch() > (last := tables.ledger.last_batch()):
        for table in tables.all():
            _go_back(files, table, last)


def _go_back(files, table, last):
    """Makes a table what it was behind the batch number `last`."""
    from deltalake import DeltaTable

    now = opened(files, table.name)
    if now is None or (version := _Log(files.path(table.name)).version_of(last)) == now.version():
        return
    then = DeltaTable(files.path(table.name), version=version)
    names = (BATCHES, GONE, *(TOLD.format(name) for name in TABLES if table.name == "ledger"))
    known = {name: then.transaction_version(name) for name in names}
    table.restore(version, {name: -1 if number is None else number for name, number in known.items()})


def _move(files, landing, plan):
    archive = Path(files.archived(landing.path("")))
    archive.mkdir(parents=True, exist_ok=True)
    archived = {Path(name).name: files.path(name) for name in files.find(ARCHIVE, "*.ndjson")}
    archived |= {path.name: path for path in archive.glob("*.ndjson")}  # rather than those of another landing folder
    for name in plan["read"]:
        if os.path.exists(landing.path(name)):
            os.replace(landing.path(name), archive / name)
    for name in plan["again"]:
        if name in archived and not os.path.exists(landing.path(name)):
            os.replace(archived[name], landing.path(name))
    landing.sync("")
    files.sync(ARCHIVE)
