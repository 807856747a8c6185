"""Summaries of the files of `raw`, `measurements` and `health`: what each file adds to a report, computed once.

A file of a table never changes, and its name never comes again. So its summary is right for as long as the table's log
names the file, whatever batches, merges and deletions do to the others. Summaries are kept in the folder FOLDER beside
the tables, in DuckDB's files. These may be deleted at any time: what is missing or damaged is computed again, and where
nothing can be written, each time."""

import contextlib
import hashlib
import re
import secrets
import time
import zlib
from pathlib import Path
from typing import NamedTuple

import duckdb

from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.proof import SLOW
from inflight_tools.fleet.spark.storage import sync

FOLDER = "_summaries"
FEW = 20_000  # rows that are quickly read again: their summaries are not kept
_OPENING = 500  # rows that are read in the time in which a file is opened
STEP_S = 60  # of `times`
DELAYS = (60, 300, 900, 3600, 4 * 3600, 86_400, 7 * 86_400)  # in s, of late messages
_RARE = "('collector', 'status', 'release', 'log')"  # kinds of messages that are kept as they are
_RECORD = 16  # bytes of a journal's record beside topic and payload
_BACK = "made < before - INTERVAL 60 SECONDS"  # the clock went back
_MOST = 2_000_000  # rows that are summed up at once
_UNFINISHED_S = 86_400  # for which an unfinished file stays: another report may be writing it
_TRIES = 3  # of opening: another report may merge files meanwhile
_NAME = re.compile(r"[0-9a-f]{16}-(?P<version>[0-9a-f]{16})-(?P<crc>[0-9a-f]{8})\.duckdb")
_BUFFER = 1 << 20

ACCEPTED = f"CASE WHEN counters['accepted'] BETWEEN 0 AND {(1 << 32) - 1} THEN counters['accepted'] END"
# What is read of a file, once. file: its number; counts: whether it is the first delivery of a number.
_SOURCES = {
    "raw": f"""file, received, "by", device, epoch, seq, kind, state, next_s, made, oldest, expiry, retain, first,
        problem, digest, octet_length(payload) + octet_length(encode(topic)) + {_RECORD} AS bytes,
        CASE WHEN kind IN {_RARE} THEN payload END AS payload, coalesce(first AND seq IS NOT NULL, false) AS counts""",
    "measurements": "file, received, device, epoch, seq, coalesce(place, 0) AS place",
    "health": """file, device, epoch, seq, received, up, heap, rssi, outbox_full, firmware, reset, journal_where,
        journal_live, journal_used, journal_limit, journal_erases, journal_damaged, journal_skipped, errors,
        counters""",
}
_LATE = ", ".join(f"count(*) FILTER (counts AND made < received - INTERVAL {s} SECONDS) AS late_{s}" for s in DELAYS)
# {summary: (table, SQL over a chunk of it)}
_SUMMARIES = {
    # Of a day and journal; lo, hi, since, until, oldest, began and bytes are those of first deliveries, `live` is the
    # lowest number of a delivery without RETAIN.
    "days": (
        "raw",
        """SELECT file, CAST(received AS DATE) AS day, device, epoch, count(*) FILTER (counts) AS delivered,
            count(*) FILTER (NOT first AND seq IS NOT NULL) AS repeated, min(seq) FILTER (counts) AS lo,
            max(seq) FILTER (counts) AS hi, min(received) FILTER (counts) AS since,
            max(received) FILTER (counts) AS until, max(oldest) FILTER (counts) AS oldest,
            min(seq) FILTER (retain IS NOT TRUE) AS live,
            min(least(received, made)) FILTER (counts) AS began, sum(bytes) FILTER (counts) AS bytes,
            max(expiry) AS expiry
        FROM chunk GROUP BY ALL""",
    ),
    # Numbers of first deliveries, without a gap from lo to hi. received: when lo was; began, ended: when the first and
    # the last one were made; jumps: how often the clock went back between.
    "runs": (
        "raw",
        f"""SELECT file, device, epoch, min(seq) AS lo, max(seq) AS hi, count(*) AS many,
            arg_min(received, seq) AS received, arg_min(made, seq) AS began, arg_max(made, seq) AS ended,
            count(*) FILTER ({_BACK})
                - CAST(coalesce(arg_min(coalesce({_BACK}, false), seq) FILTER (made IS NOT NULL), false) AS INT)
                AS jumps
        FROM (
            SELECT *, seq - dense_rank() OVER journal AS run, lag(made IGNORE NULLS) OVER journal AS before
            FROM chunk WHERE counts WINDOW journal AS (PARTITION BY file, device, epoch ORDER BY seq))
        GROUP BY file, device, epoch, run""",
    ),
    # Of a step of time and collector. t: its begin in s since 1970; late_...: by how much.
    "times": (
        "raw",
        f"""SELECT file, "by", CAST(floor(epoch(received) / {STEP_S}) AS BIGINT) * {STEP_S} AS t,
            min(received) AS since, max(received) AS until, count(*) AS deliveries,
            count(*) FILTER (counts) AS received, count(*) FILTER (NOT first) AS repeated,
            count(*) FILTER (first AND state = 'offline' AND NOT retain) AS offline,
            count(*) FILTER (first AND problem IS NOT NULL) AS dead_letters, {_LATE}
        FROM chunk GROUP BY ALL""",
    ),
    "rare": (
        "raw",
        f"""SELECT file, received, "by", device, epoch, seq, kind, state, next_s, made, retain, first, problem, payload
        FROM chunk WHERE kind IN {_RARE}""",
    ),
    # Repetitions, but those whose first delivery is in the same file and has the same content.
    "repeats": (
        "raw",
        """WITH again AS (
            SELECT DISTINCT file, device, epoch, seq, digest FROM chunk
            WHERE NOT first AND seq IS NOT NULL AND epoch IS NOT NULL AND device IS NOT NULL),
        told AS (
            SELECT file, device, epoch, seq, digest FROM chunk
            SEMI JOIN again USING (file, device, epoch, seq) WHERE first)
        FROM again ANTI JOIN told USING (file, device, epoch, seq, digest)""",
    ),
    # Numbers with measurements, without a gap from lo to hi. doubled: rows that are there twice.
    "packs": (
        "measurements",
        """SELECT file, device, epoch, min(seq) AS lo, max(seq) AS hi, min(since) AS since, max(until) AS until,
            CAST(sum(many - places) AS BIGINT) AS doubled
        FROM (
            SELECT *, seq - dense_rank() OVER (PARTITION BY file, device, epoch ORDER BY seq) AS run FROM (
                SELECT file, device, epoch, seq, count(*) AS many, min(received) AS since, max(received) AS until,
                    bit_count(coalesce(bit_or(1::BIGINT << least(greatest(place, 0), 61))
                        FILTER (place BETWEEN 0 AND 61), 0))  -- it shifts before it filters
                    + coalesce(len(list_distinct(list(place) FILTER (NOT place BETWEEN 0 AND 61))), 0) AS places
                FROM chunk WHERE seq IS NOT NULL GROUP BY ALL))
        GROUP BY file, device, epoch, run""",
    ),
    # Health messages, but those between two others of the same run of the device's program: what is counted from starts
    # to ends does not need them. Of each journal the first and the last one are there, and the one received first.
    "turns": (
        "health",
        f"""SELECT * EXCLUDE (accepted, was, next, up_before, up_next, began) FROM (
            SELECT *, lag(accepted) OVER journal AS was, lead(accepted) OVER journal AS next,
                lag(up) OVER journal AS up_before, lead(up) OVER journal AS up_next,
                min(received) OVER (PARTITION BY file, device, epoch) AS began
            FROM (SELECT *, {ACCEPTED} AS accepted FROM chunk) WHERE accepted IS NOT NULL
            WINDOW journal AS (PARTITION BY file, device, epoch ORDER BY seq))
        WHERE NOT coalesce(was < accepted AND accepted < next AND up_before <= up AND up <= up_next
            AND began < received AND epoch IS NOT NULL AND seq IS NOT NULL, false)""",
    ),
    # Starts of a device, by their first number: within which time they were, by receipt and uptime.
    "boots": (
        "health",
        f"""SELECT file, device, epoch, greatest(0, seq - {ACCEPTED}) AS boot, min(epoch(received) - up) AS until,
            max(epoch(received) - {SLOW} * up) AS latest
        FROM chunk WHERE {ACCEPTED} IS NOT NULL AND seq IS NOT NULL AND up BETWEEN 0 AND {(1 << 32) - 1}
        GROUP BY ALL""",
    ),
}
# Contents of the first deliveries of the numbers in `repeats`, which may be in any file.
_DIGESTS = "file UBIGINT, device VARCHAR, epoch BIGINT, seq BIGINT, digest BIGINT"
_UNKNOWN = """
CREATE OR REPLACE TEMP TABLE unknown AS
SELECT * FROM (
    SELECT DISTINCT one.file, device, epoch, seq
    FROM (SELECT DISTINCT device, epoch, seq FROM {0}repeats) JOIN {0}runs AS one USING (device, epoch)
    WHERE seq BETWEEN lo AND hi)
ANTI JOIN {0}digests USING (file, device, epoch, seq)
"""
_NAMES = (*_SUMMARIES, "digests")
_OF_NO_DEVICE = ("times",)
_TEXT = repr((_SOURCES, _SUMMARIES, _DIGESTS, duckdb.__version__))
_VERSION = hashlib.blake2b(_TEXT.encode(), digest_size=8).hexdigest()


def _number(table, path):
    """The number of a file: 64 bits of a digest of its name."""
    return int.from_bytes(hashlib.blake2b(f"{table}/{path}".encode(), digest_size=8).digest(), "big")


def _checksum(path):
    found = 0
    with open(path, "rb") as file:
        while data := file.read(_BUFFER):
            found = zlib.crc32(data, found)
    return f"{found:08x}"


def _chunks(files):
    """Lists of files with _MOST rows together, or of one file with more. files: {number: rows}"""
    chunk, rows = [], 0
    for number, many in files.items():
        if chunk and rows + many > _MOST:
            yield chunk
            chunk, rows = [], 0
        chunk.append(number)
        rows += many
    if chunk:
        yield chunk


def _quoted(path):
    return str(path).replace("'", "''")


class _Kept(NamedTuple):
    """A file of summaries, with those of the `files`. counted: those of them that the tables have, and that are in no
    other one."""

    name: str  # of the schema
    path: Path
    rows: int
    files: set
    counted: set


class Summaries:
    """Views of the summaries of files, for a Database: every_days and so on, as there are every_raw and so on. run,
    named: its methods. files: {table: {filename of its rows there: (path in the table, number of rows)}}. folder: a
    Path, where summaries are kept; None: nowhere."""

    def __init__(self, run, named, files, folder):
        self._run, self._named, self._folder = run, named, folder
        self._names, self._rows, self._of = {}, {}, {}
        for table in _SOURCES:
            for filename, (path, rows) in files[table].items():
                number = _number(table, path)
                self._names[number], self._rows[number], self._of[number] = filename, rows or 0, table
        self._run("CREATE TABLE listed (filename VARCHAR, file UBIGINT)")
        self._insert("listed", [f"'{_quoted(name)}', {number}" for number, name in self._names.items()])
        self._run("CREATE TABLE counted (kept VARCHAR, file UBIGINT)")
        self._make("new")
        self._new = {}  # {number of a file that is in no kept file yet: its rows}
        self._kept = []
        self._attached = 0
        self._open()
        self._extend()

    def names(self, numbers):
        """SQL of a list of filenames."""
        listed = [f"'{_quoted(self._names[one])}'" for one in numbers]
        return f"({', '.join(listed) or 'NULL'})"

    def show(self, device=None, since=None, until=None):
        """Makes the views days and so on, which have the same rows as `raw` and `measurements`, and every_days and so
        on, as every_raw has them: of one device, None: of all, and received at the time `since` or later, and before
        `until`, SQL of these or None. `turns` has all times."""
        for name in _NAMES:
            every = " UNION ALL ".join([f"FROM new_{name}", *(self._part(one, name) for one in self._kept)])
            source = f"FROM ({every})" if name in _OF_NO_DEVICE else self._named(f"({every})", device)
            self._run(f"CREATE OR REPLACE VIEW every_{name} AS {source}")
            self._run(f"CREATE OR REPLACE VIEW {name} AS FROM every_{name}")
        if since or until:
            self._limit(since, until)

    def _insert(self, table, rows):
        """rows: SQL of their values."""
        if values := [f"({row})" for row in rows]:
            self._run(f"INSERT INTO {table} VALUES {', '.join(values)}")

    # What is kept

    def _open(self):
        for _ in range(_TRIES):
            try:
                return self._attach()
            except OSError:
                self._drop(self._kept)

    def _attach(self):
        if not (self._folder and self._folder.is_dir()):
            return
        for path in sorted(self._folder.iterdir(), key=lambda path: -path.stat().st_size):
            if (named := _NAME.fullmatch(path.name)) and named["version"] == _VERSION:
                if _checksum(path) == named["crc"]:
                    self._take(path)
                else:
                    with contextlib.suppress(OSError):
                        path.unlink()

    def _take(self, path):
        self._attached += 1
        name = f"kept_{self._attached}"
        try:
            self._run(f"ATTACH '{_quoted(path.absolute())}' AS {name} (READ_ONLY)")
        except (WrongTables, duckdb.Error):
            return
        files = {number for (number,) in self._run(f"FROM {name}.files").fetchall()}
        rows = sum(self._run(f"SELECT count(*) FROM {name}.{one}").fetchone()[0] for one in _NAMES)
        counted = (files & self._names.keys()).difference(*(one.counted for one in self._kept))
        self._kept.append(_Kept(name, path, rows, files, counted))
        self._insert("counted", [f"'{name}', {number}" for number in counted])

    def _drop(self, kept):
        for one in list(kept):
            self._kept.remove(one)
            self._run(f"DELETE FROM counted WHERE kept = '{one.name}'")
            self._run(f"DETACH {one.name}")

    def _part(self, one, name):
        """SQL of those rows of a summary that a kept file has, and that count."""
        if name == "digests":  # of any file
            return f"SELECT * FROM {one.name}.{name} SEMI JOIN listed USING (file)"
        if one.counted == one.files:
            return f"FROM {one.name}.{name}"
        return f"SELECT * FROM {one.name}.{name} SEMI JOIN (FROM counted WHERE kept = '{one.name}') USING (file)"

    def _save(self):
        """Moves what is new into a kept file, with those that have few rows, so that they stay few and each row is
        seldom written again."""
        if not self._folder:
            return
        rows = sum(self._run(f"SELECT count(*) FROM new_{name}").fetchone()[0] for name in _NAMES)
        merged = []
        for one in sorted(self._kept, key=lambda one: one.rows if one.counted else 0):
            if one.counted and one.rows > 2 * rows:
                break
            merged.append(one)
            rows += one.rows if one.counted else 0
        fresh = self._folder / f".{secrets.token_hex(8)}.duckdb"
        try:
            self._folder.mkdir(exist_ok=True)
            self._write(fresh, merged)
            path = self._folder / f"{fresh.stem[1:]}-{_VERSION}-{_checksum(fresh)}.duckdb"
            sync(fresh)
            fresh.replace(path)
            self._drop(merged)
            self._tidy({one.path for one in merged})
        except (WrongTables, duckdb.Error, OSError):  # no space, or nothing may be written: it is in memory
            with contextlib.suppress(WrongTables, duckdb.Error):
                self._run("DETACH fresh")
            for left in (fresh, fresh.with_suffix(".duckdb.wal")):
                with contextlib.suppress(OSError):
                    left.unlink()
            self._folder = None
            return
        for name in _NAMES:
            self._run(f"DELETE FROM new_{name}")
        self._new.clear()
        self._take(path)

    def _write(self, path, merged):
        self._run(f"ATTACH '{_quoted(path.absolute())}' AS fresh")
        for name in _NAMES:
            parts = " UNION ALL ".join([f"FROM new_{name}", *(self._part(one, name) for one in merged)])
            self._run(f"CREATE TABLE fresh.{name} AS {parts}")
        files = set(self._new).union(*(one.counted for one in merged))
        self._run("CREATE TABLE fresh.files (file UBIGINT)")
        self._insert("fresh.files", map(str, files))
        self._run("DETACH fresh")

    def _tidy(self, merged):
        """Deletes files that were merged, those of other versions, and those that nobody has finished."""
        for path in self._folder.iterdir():
            named = _NAME.fullmatch(path.name)
            old = named["version"] != _VERSION if named else path.stat().st_mtime < time.time() - _UNFINISHED_S
            if old or path in merged:
                with contextlib.suppress(OSError):
                    path.unlink()

    # What is new

    def _make(self, prefix):
        """Makes empty tables of the summaries."""
        for name, (table, sql) in _SUMMARIES.items():
            self._read(table, ())
            self._run(f"CREATE OR REPLACE TABLE {prefix}_{name} AS {sql}")
        self._run(f"CREATE OR REPLACE TABLE {prefix}_digests ({_DIGESTS})")

    def _read(self, table, numbers, where="true"):
        self._run(
            f"""CREATE OR REPLACE TEMP TABLE chunk AS SELECT {_SOURCES[table]}
            FROM every_{table} JOIN listed USING (filename) WHERE filename IN {self.names(numbers)} AND {where}"""
        )

    def _sum(self, table, numbers, prefix, where="true"):
        """Adds the summaries of some files of a table to tables with that prefix."""
        self._read(table, numbers, where)
        for name, (of, sql) in _SUMMARIES.items():
            if of == table:
                self._run(f"INSERT INTO {prefix}_{name} {sql}")
        self._run("DROP TABLE chunk")

    def _extend(self):
        """Computes what is not kept."""
        known = set().union(*(one.counted for one in self._kept))
        for table in _SOURCES:
            missing = {n: rows for n, rows in self._rows.items() if self._of[n] == table and n not in known}
            for numbers in _chunks(missing):
                self._sum(table, numbers, "new")
                self._new |= {number: missing[number] for number in numbers}
                if sum(rows + _OPENING for rows in self._new.values()) > FEW:
                    self._save()
        self.show()
        if self._look_up("every_", "new_digests") > FEW:
            self._save()
            self.show()

    def _look_up(self, prefix, to):
        """Looks for the contents of first deliveries that are not known yet. Returns how many rows were read."""
        self._run(_UNKNOWN.format(prefix))
        numbers = [number for (number,) in self._run("SELECT DISTINCT file FROM unknown").fetchall()]
        if numbers:
            self._run(
                f"""INSERT INTO {to} SELECT file, device, epoch, seq, digest
                FROM {prefix}raw JOIN listed USING (filename) SEMI JOIN unknown USING (file, device, epoch, seq)
                WHERE first AND filename IN {self.names(numbers)}"""
            )
        return sum(map(self._rows.get, numbers))

    def _limit(self, since, until):
        """Limits the views to what was received in a time: what only a part of a file was is summed up again."""
        from_then = f"{{}} >= {since}" if since else "true"
        to_then = f"{{}} < {until}" if until else "true"
        self._make("cut")
        for table, name in (("raw", "times"), ("measurements", "packs")):
            self._run(
                f"""CREATE OR REPLACE TABLE spans_{table} AS SELECT file, min(since) AS since, max(until) AS until,
                    count(since) = count(*) AS dated FROM every_{name} GROUP BY file"""
            )
            inside = f"dated AND {from_then.format('since')} AND {to_then.format('until')}"
            touched = f"{from_then.format('until')} AND {to_then.format('since')}"
            cut = self._run(f"SELECT file FROM spans_{table} WHERE NOT ({inside}) AND {touched}").fetchall()
            limits = f"{from_then.format('received')} AND {to_then.format('received')}"
            for numbers in _chunks({number: self._rows[number] for (number,) in cut}):
                self._sum(table, numbers, "cut", limits)
            self._run(f"DELETE FROM spans_{table} WHERE NOT ({inside})")
        for name in _NAMES:
            table = _SUMMARIES[name][0] if name in _SUMMARIES else "raw"
            if table == "health":
                continue
            self._run(
                f"""CREATE OR REPLACE VIEW {name} AS SELECT * FROM every_{name} SEMI JOIN spans_{table} USING (file)
                UNION ALL BY NAME FROM cut_{name}"""
            )
        self._look_up("", "cut_digests")
