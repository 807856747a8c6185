"""Measurements as files for another database: each measurement is in one of the files, once.

The position is a version of the table `measurements`. A commit of a batch names the files with its rows, a commit that
dates readings those with their rows; other commits bring no new rows. Commits, and files that were merged, stay for a
day: an export that is not farther behind finds all.

A file is complete under a hidden name before the position tells it, and gets its name after that. So however often this
is killed, a file appears once, also for a reader that deletes what it has read."""

import json
import math
import os
import re
import tempfile
from pathlib import Path

import duckdb

from inflight_tools.fleet.collect.spool import make_folder
from inflight_tools.fleet.columns import FACTS
from inflight_tools.fleet.delta import BATCHES, LOG, UNDATED, columns_of, last_batch, opened_together
from inflight_tools.fleet.lock import take_lock
from inflight_tools.fleet.spark.storage import files_in, sync, sync_alone

TABLE = "measurements"
FORMS = {"parquet": "parquet", "line-protocol": "lp"}  # and how the names of their files end
_POSITION = ".position.json"
_ROWS = 10_000  # at once
_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")  # what ends a line for one reader or another
_TYPES = {"string": "VARCHAR", "timestamp": "TIMESTAMPTZ"}
_COLUMNS = dict(re.findall(r"(\w+) (\w+)", FACTS[TABLE]))
_NAMES = ", ".join(f'"{name}"' for name in _COLUMNS)
_KEY = "device, epoch, seq and place are the key of a row"


class NotExported(RuntimeError):
    """Rows cannot be exported once. The text says why, and what to do."""


class _Commit:
    """A commit of the table, by its actions."""

    def __init__(self, actions):
        told = {one["txn"]["appId"]: one["txn"]["version"] for one in actions if "txn" in one}
        self.batch = told.get(BATCHES)
        self.restores = any(one.get("commitInfo", {}).get("operation") == "RESTORE" for one in actions)
        self._added = [one["add"]["path"] for one in actions if "add" in one]
        removed = {one["remove"]["path"] for one in actions if "remove" in one}
        self.dates = bool(removed) and all(UNDATED in path for path in removed)
        self.dropped = () if self._added else removed  # with their rows: of a batch that was not completed

    def files(self, undated):
        """Those with new rows. undated: rows without a time count when they come, not when they are dated."""
        if self.batch is None and (undated or not self.dates):
            return []
        return [path for path in self._added if undated or UNDATED not in path]


class Follower:
    """Exports to the folder `to` of this machine from the tables in the folder or URI `root`. form: of FORMS. undated:
    readings that a device may still date are exported when they come, with the time of receipt; otherwise when they are
    dated. Raises NotExported; Busy if another one writes there; OSError."""

    def __init__(self, root, to, form="parquet", undated=False):
        self._files, self._folder = files_in(root), Path(to)
        self._how = {"form": form, "undated": undated}
        make_folder(self._folder)
        self._lock = take_lock(self._folder / ".lock", f"another export writes to {to}")
        try:
            self._position = self._read()
            self._show()
            for left in self._folder.glob(f".{TABLE}-*"):  # of one that was killed before the position told it
                left.unlink()
        except BaseException:
            self.close()
            raise

    def close(self):
        os.close(self._lock)

    def _read(self):
        path = self._folder / _POSITION
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            how = {name: found[name] for name in self._how}
            int(found["version"]), found["table"], found["file"]
        except FileNotFoundError:
            if any(self._folder.glob(f"{TABLE}-*")):
                raise NotExported(f"{path} is missing: restore it, or begin in another folder; {_KEY}") from None
            return None
        except (ValueError, LookupError, TypeError):
            raise NotExported(f"{path} is damaged: restore it, or begin in another folder; {_KEY}") from None
        if how != self._how:
            words = f"--format {how['form']}{' --undated' if how['undated'] else ''}"
            raise NotExported(f"the export in {self._folder} was begun with {words}: give that, or another folder")
        return found

    def _save(self, table, version, name):
        self._position = self._how | {"table": table, "version": version, "file": name}
        path = self._folder / _POSITION
        new = path.with_suffix(".new")
        new.write_text(json.dumps(self._position), encoding="utf-8")
        sync(new)
        os.replace(new, path)
        sync_alone(self._folder)

    def _show(self):
        """Gives the file that the position tells its name, if it has none yet."""
        name = self._position and self._position["file"]
        if name and (hidden := self._folder / f".{name}").exists():
            os.replace(hidden, self._folder / name)
            sync_alone(self._folder)

    def step(self):
        """Exports what is new, as one file if it has rows. Returns how many; None if nothing is new."""
        tables = opened_together(self._files, [TABLE])
        table, last = tables[TABLE], last_batch(tables["ledger"])
        if table is None:
            return None
        known = self._position and self._position["version"]
        if known is not None and self._position["table"] != table.metadata().id:
            raise NotExported(f"the export in {self._folder} is of other tables: give another folder")
        version, paths = self._all(table, last) if known is None else self._since(table, last, known)
        if version == known:
            return None
        name = f"{TABLE}-{version:020}.{FORMS[self._how['form']]}"
        rows = self._write(self._folder / f".{name}", paths) if paths else 0
        self._save(table.metadata().id, version, name if rows else None)
        self._show()
        return rows

    def _commit(self, version):
        """None: it is not there any more."""
        actions = [json.loads(line) for line in self._files.lines(f"{TABLE}/{LOG}/{version:020}.json")]
        return _Commit(actions) if actions else None

    def _all(self, table, last):
        """(version, files) of all rows up to the batch number `last`."""
        version, until = table.version(), table.version()
        while version >= 0 and (commit := self._commit(version)):
            if commit.batch is not None and commit.batch <= last:
                break
            if commit.batch is not None or commit.dates:  # its rows come behind this version
                until = version - 1
            version -= 1
        if until < table.version():
            table.load_as_version(max(until, 0))
        (paths,) = columns_of(table, "path")
        return version, [path for path in paths if self._how["undated"] or UNDATED not in path]

    def _since(self, table, last, known):
        """(version, files) of the rows that came after the version `known`, up to the batch number `last`."""
        version, paths, some = known, [], []
        for number in range(known + 1, table.version() + 1):
            commit = self._commit(number)
            if commit is None:
                raise self._behind()
            if commit.batch is not None and commit.batch > last:
                break
            if commit.restores:
                raise NotExported(
                    f"the tables were repaired, and rows that are in {self._folder} come again: begin in another "
                    f"folder; {_KEY}"
                )
            some += commit.files(self._how["undated"])
            if commit.batch is not None:  # it is durable, and so is all before it: no other commit gets its number
                version, paths, some = number, paths + some, []
            paths = [path for path in paths if path not in commit.dropped]
        return version, paths

    def _behind(self):
        return NotExported(
            f"the export in {self._folder} is more than a day behind the tables, and nothing tells any more which rows "
            f"are new: begin in another folder; {_KEY}"
        )

    def _write(self, path, paths):
        """Writes the rows of the table's files `paths`, durably. Returns how many; without any there is no file."""
        with tempfile.TemporaryDirectory(prefix="inflight-export-") as folder, duckdb.connect() as connection:
            here = f"{folder}/{TABLE}"  # the name of our own folder could be a pattern for DuckDB
            self._bring(paths, here)
            connection.execute("SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
            types = {name: _TYPES.get(kind, kind) for name, kind in _COLUMNS.items()}
            empty = ", ".join(f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in types.items())
            listed = ", ".join("'{}'".format(f"{here}/{one}".replace("'", "''")) for one in paths)
            read = f"FROM read_parquet([{listed}], union_by_name = true, hive_partitioning = false)"
            connection.execute(  # older files lack columns
                f"CREATE VIEW rows AS SELECT {_NAMES} FROM ((SELECT {empty} WHERE false) UNION ALL BY NAME ({read}))"
            )
            rows = self._copy(connection, path)
        if rows:
            sync(path)
        else:
            path.unlink(missing_ok=True)
        return rows

    def _bring(self, paths, here):
        try:
            self._files.bring(TABLE, paths, here)
            for one in paths:
                os.stat(f"{here}/{one}")
        except FileNotFoundError:
            raise self._behind() from None

    def _copy(self, connection, path):
        if self._how["form"] == "parquet":
            target = str(path).replace("'", "''")
            ((rows,),) = connection.execute(f"COPY rows TO '{target}' (FORMAT parquet, COMPRESSION zstd)").fetchall()
            return rows
        rows = 0
        found = connection.execute("SELECT device, name, unit, epoch_us(time), value, text, flag, data, sum FROM rows")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            while some := found.fetchmany(_ROWS):
                lines = [line for row in some if (line := line_of(*row))]
                file.writelines(lines)
                rows += len(lines)
        return rows


def _word(text):
    """A measurement, or the value of a tag: neither may have control characters or end with a backslash."""
    text = "".join(c if c.isprintable() and c != "\\" else "_" for c in text)
    return re.sub(r"([,= ])", r"\\\1", text)


def _text(text):
    text = _BREAK.sub(lambda found: repr(found[0])[1:-1], text)  # whoever reads line by line finds no other one in it
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def line_of(device, name, unit, us, value, text, flag, data, total):
    """The line of a measurement in InfluxDB's line protocol, "" of one without a value: `name` is its measurement,
    device and unit are tags. us: its time, in us since 1970."""
    told = {"data": None if data is None else _text(data), "flag": None if flag is None else str(flag).lower()}
    told |= {name: repr(n) for name, n in (("sum", total), ("value", value)) if n is not None and math.isfinite(n)}
    told["text"] = None if text is None else _text(text)
    fields = ",".join(f"{name}={known}" for name, known in sorted(told.items()) if known)
    if not fields or us is None:
        return ""
    tags = "".join(f",{tag}={_word(known)}" for tag, known in (("device", device), ("unit", unit)) if known)
    begin = re.sub("^#", "_", _word(name or TABLE))  # it would be a comment
    return f"{begin}{tags} {fields} {1000 * us}\n"
