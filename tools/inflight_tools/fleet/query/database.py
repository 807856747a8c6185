"""The tables as views of a DuckDB database: each as it was when the database was opened.

DuckDB itself reads the Parquet files that the log of a table names. Nothing of Python takes part: threads that wait for
Python's lock and for one of a reader written for Python can wait for each other for ever."""

import os
import re
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa

from inflight_tools.fleet import registry
from inflight_tools.fleet.columns import CLOCKS, FACTS, LEDGER, MINUTES, PAIRS, RANGES
from inflight_tools.fleet.delta import WrongTables, batch_of, columns_of, differences, last_batch, opened_together
from inflight_tools.fleet.spark.storage import files_in

from .summaries import FOLDER, Summaries

_TABLES = {"ledger": LEDGER, "minutes": MINUTES, "clocks": CLOCKS, **FACTS}
_COLUMN = re.compile(r"`?(\w+)`? ([^,<]+(?:<.*?>+)?)")
_TYPES = {
    RANGES: "STRUCT(lo BIGINT, hi BIGINT)[]",
    PAIRS: "STRUCT(name VARCHAR, value VARCHAR)[]",
    "timestamp": "TIMESTAMPTZ",
    **{f"map<string, {kind}>": f"MAP(VARCHAR, {kind})" for kind in ("string", "bigint")},
}
_SETTINGS = """
SET TimeZone = 'UTC';
SET default_null_order = 'nulls_first_on_asc_last_on_desc';
SET memory_limit = '{}MB';
SET temp_directory = '{}';
SET parquet_metadata_cache = true;
"""
_LEAST_MB = 512
_MANY = 10_000  # rows at once
# Devices two of whose names have sent one number of one journal, so that these are two boards.
_COLLIDING = """
SELECT DISTINCT device FROM (
    SELECT device, r.lo, max(r.hi) OVER (PARTITION BY device, epoch ORDER BY r.lo, r.hi
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
    FROM (SELECT device, epoch, unnest(ranges) AS r
        FROM every_ledger SEMI JOIN (SELECT present AS device FROM renamed) USING (device)))
WHERE lo <= before
"""
_TIMES = {"minutes": "minute"}  # columns with the time of a row, if that is not `received`


def moment(seconds):
    """SQL of a time in s since 1970."""
    return f"to_timestamp({float(seconds)!r})"


def _quoted(text):
    return text.replace("'", "''")


def _limits(column, since, until):
    if since is not None:
        yield f"{column} >= {since}"
    if until is not None:
        yield f"{column} < {until}"


def _memory_mb():
    """A quarter of this machine's memory: `tables` may run beside it. What does not fit goes to a temporary folder."""
    return max(_LEAST_MB, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 >> 20)


def _paths(table, last):
    """{file: number of rows} of a DeltaTable with the batches up to number `last`, as its log has it; none of None."""
    found = zip(*columns_of(table, "path", "num_records"), strict=True)
    return {path: rows for path, rows in found if batch_of(path) <= last}


class Database:
    """A context manager: views of the tables in the folder or URI `root`, by their names. They have the batches that
    were complete when it was made, and the present names of devices. A table or column that is missing is empty. told:
    in place of the registry, as registry.load() returns it. Raises WrongTables."""

    def __init__(self, root, told=None):
        self._files, self._told = files_in(root), told
        self.tables = opened_together(self._files, _TABLES)
        self.differences = differences(self.tables)
        last = last_batch(self.tables["ledger"])
        self._paths = {name: _paths(table, last) for name, table in self.tables.items()}
        self._summaries = None

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="inflight-query-", ignore_cleanup_errors=True)
        self._connection = duckdb.connect()
        self._connection.execute(_SETTINGS.format(_memory_mb(), _quoted(self._folder.name)))
        self._columns = {name: self._stored(name, paths) for name, paths in self._paths.items() if paths}
        self._register()
        return self

    def _register(self):
        """Makes tables of what the registry has."""
        told = registry.load(self._files) if self._told is None else self._told
        self._rename(registry.names(told))
        self.only()
        if self.known_names:
            colliding = set(self.values(_COLLIDING))
            self._rename({name: mine for name, mine in self.known_names.items() if mine[0] not in colliding})
        columns = {"retired": pa.float64(), "interval_s": pa.float64(), "group": pa.string(), "note": pa.string()}
        rows = [{"device": device} | fields for device, fields in registry.merged(told, self.known_names).items()]
        self._fill("registered", {"device": pa.string()} | columns, rows)

    def _rename(self, names):
        """From now on the views have the present names of `names`, as registry.names() returns them."""
        self.known_names = names
        ago = registry.hops(names)
        rows = [{"old": name, "present": names[name][0], "hops": hops} for name, hops in ago.items() if hops]
        self._fill("renamed", {"old": pa.string(), "present": pa.string(), "hops": pa.int64()}, rows)

    def _fill(self, name, columns, rows):
        """Makes a table."""
        self._connection.register("given", pa.Table.from_pylist(rows, pa.schema(columns)))
        self.run(f"CREATE OR REPLACE TABLE {name} AS FROM given")
        self._connection.unregister("given")

    def names(self, device):
        """The present name of a device, and those that it had before."""
        return self.known_names.get(device, [device])

    def named(self, source, device):
        """SQL of the rows of `source`, of one device, None: of all, with the present name. hops: NULL, or how many
        names ago the row came."""
        listed = ", ".join(f"'{_quoted(name)}'" for name in self.names(device)) if device is not None else ""
        return f"""SELECT * EXCLUDE (old, present) REPLACE (coalesce(present, device) AS device)
            FROM (FROM {source} {listed and f"WHERE device IN ({listed})"}) LEFT JOIN renamed ON device = old"""

    def __exit__(self, *_):
        self._connection.close()
        self._folder.cleanup()

    def _here(self, name):
        """Where DuckDB finds a file of the tables: for it `root` could be a pattern."""
        return f"{self._folder.name}/{name}"

    def _stored(self, name, paths):
        """Makes the view stored_... of the rows in the files of a table, with their `filename`. Returns its columns."""
        self._files.bring(name, list(paths), self._here(name))
        listed = ", ".join(f"'{_quoted(self._here(f'{name}/{path}'))}'" for path in paths)
        # Of tables of several versions some files lack columns. A folder of `root` may be called "day=3".
        how = "union_by_name = true, hive_partitioning = false, filename = true"
        self.run(f"CREATE VIEW stored_{name} AS FROM read_parquet([{listed}], {how})")
        return {column for column, *_ in self.run(f"DESCRIBE stored_{name}").fetchall()}

    def only(self, device=None, since=None, until=None):
        """From now on the views have the rows of one device, which were received (of `minutes`: made) at the time
        `since` or later, and before `until`, in s since 1970; None: all. For each table there is a view with the rows
        of all times, too: `every_raw` and so on. `filename`: the file of a row, behind its other columns."""
        self.ranged = since is not None or until is not None
        since, until = (None if time is None else moment(time) for time in (since, until))
        for name, columns in _TABLES.items():
            present = self._columns.get(name, ())
            listed = ", ".join(
                f'"{column}"' if column in present else f'CAST(NULL AS {_TYPES.get(kind, kind)}) AS "{column}"'
                for column, kind in _COLUMN.findall(f"{columns}, filename string")
            )
            source = f"FROM ({self.named(f'stored_{name}', device)})" if present else "WHERE false"
            self.run(f"CREATE OR REPLACE VIEW every_{name} AS SELECT {listed} {source}")
            limits = " AND ".join(_limits(_TIMES.get(name, "received"), since, until))
            where = f"WHERE {limits}" if limits and name not in ("ledger", "clocks") else ""
            self.run(f"CREATE OR REPLACE VIEW {name} AS FROM every_{name} {where}")
        if self._summaries:
            self._summaries.show(device, since, until)

    def summarize(self):
        """From now on there are views of the summaries of files, too. Returns the Summaries."""
        if not self._summaries:
            self.only()
            files = {
                name: {self._here(f"{name}/{path}"): (path, rows) for path, rows in paths.items()}
                for name, paths in self._paths.items()
            }
            folder = Path(self._files.path(FOLDER)) if self._files.is_local else None
            known = self.known_names
            self._rename({})  # summaries are kept: they have the names that topics have
            self._summaries = Summaries(self.run, self.named, files, folder)
            self._rename(known)
        return self._summaries

    def run(self, sql, *values):
        try:
            return self._connection.execute(sql, values)
        except duckdb.IOException as error:
            said = str(error).partition("\n")[0]  # behind it is the query
            raise WrongTables(said.replace(f"{self._folder.name}/", self._files.path(""))) from None

    def rows(self, sql, *values):
        """A list of dicts."""
        found = self.run(sql, *values)
        names = [column[0] for column in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]

    def row(self, sql, *values):
        """The only row, a dict."""
        (found,) = self.rows(sql, *values)
        return found

    def arrow(self, sql, *values):
        """An Arrow table."""
        return self._connection.sql(sql, params=values).to_arrow_table()

    def tuples(self, sql, *values):
        """Yields the rows. Another query ends it."""
        found = self.run(sql, *values)
        while rows := found.fetchmany(_MANY):
            yield from rows

    def values(self, sql, *values):
        """Yields the values of the only column, as tuples() does."""
        return (value for (value,) in self.tuples(sql, *values))
