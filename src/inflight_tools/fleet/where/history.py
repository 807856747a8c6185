"""What the tables know of one device, read without Spark."""

import contextlib
import sqlite3

import pyarrow.dataset as arrow
from deltalake import DeltaTable

from inflight_tools.fleet.proof import COUNTED, ENDS_STEPS, GAP_PARTS, GAP_STEPS, HEALTH_STEPS, JOURNAL_STEPS

_SCHEMA = """
CREATE TABLE raw (device TEXT, epoch INTEGER, seq INTEGER, received REAL, oldest INTEGER);
CREATE TABLE gaps (device TEXT, epoch INTEGER, lo INTEGER, hi INTEGER);
CREATE TABLE health (device TEXT, epoch INTEGER, seq INTEGER, received REAL, up INTEGER, accepted INTEGER,
    dropped INTEGER, journal_damaged INTEGER, journal_skipped INTEGER);
"""
_FILE = ("path", "modification_time")
_MARKERS = arrow.field("kind") == "collector"


def _known(function):
    """SQL's least() or greatest() as Spark has them: NULL counts for nothing."""

    def among(*values):
        values = [value for value in values if value is not None]
        return function(values) if values else None

    return among


def _stepped(query, steps):
    """The SQL `query` with the columns of `steps`, see proof.py."""
    for columns in steps:
        added = ", ".join(f"{sql} AS {name}" for name, sql in columns.items())
        query = f"SELECT *, {added} FROM ({query})"
    return query


def _dataset(table):
    """The rows of a DeltaTable. Not the dataset of delta-rs: that one finds nothing by a column without statistics in
    tables of earlier versions, whose log does not say which columns have some."""
    found = table.to_pyarrow_dataset()
    if not found.files:
        return found
    return arrow.dataset(found.files, schema=found.schema, filesystem=found.filesystem, format="parquet")


def marks(root, retired=()):
    """For each collector, but those in `retired`: when it sent the last marker that came back to it, or None."""
    rows = _dataset(DeltaTable(f"{root}/raw"))
    names = rows.scanner(columns=["by"]).to_table()["by"].unique().to_pylist()
    sent = rows.scanner(columns=["by", "made"], filter=_MARKERS).to_table().group_by("by").aggregate([("made", "max")])
    last = {row["by"]: row["made_max"] for row in sent.to_pylist()}
    return [last.get(name) for name in names if name is not None and name not in retired]


def _seconds(moment):
    return moment and moment.timestamp()


class History:
    """What the tables in `root` know of `device`. The ledger, which is written last, is read first: the others have at
    least as much."""

    def __init__(self, root, device):
        self._root, self._device = root, device
        self._opened = {}  # {name: (DeltaTable, its rows)}
        self.ranges = self._ranges()  # {epoch: [(lowest, highest), ...]} of the numbers that arrived
        self.numbered = self._read(
            "raw", ["epoch", "seq", "received", "oldest", "first"], arrow.field("seq").is_valid()
        )

    def _table(self, name):
        """(DeltaTable, its rows) of the table `name` as it was when this was called first."""
        if name not in self._opened:
            table = DeltaTable(f"{self._root}/{name}")
            self._opened[name] = table, _dataset(table)
        return self._opened[name]

    def _read(self, name, columns, where=None):
        mine = arrow.field("device") == self._device
        rows = self._table(name)[1]
        return rows.to_table(columns=columns, filter=mine if where is None else mine & where).to_pylist()

    def _ranges(self):
        found = {}
        for row in self._read("ledger", ["epoch", "ranges"]):
            found.setdefault(row["epoch"], []).extend((one["lo"], one["hi"]) for one in row["ranges"] or ())
        return {epoch: sorted(ranges) for epoch, ranges in found.items() if ranges}

    def epochs(self):
        """The epochs of the device's journals, sorted by when their first message was received."""
        began = {}
        for row in self.numbered:
            began[row["epoch"]] = min(row["received"], began.get(row["epoch"], row["received"]))
        old = sorted(epoch for epoch in self.ranges if epoch not in began)  # older than what `raw` keeps
        return old + sorted(began, key=began.get)

    def has(self, epoch, seq):
        return any(low <= seq <= high for low, high in self.ranges.get(epoch, ()))

    def bounds(self, epoch):
        """(lowest, highest) number that arrived."""
        numbers = [row["seq"] for row in self.numbered if row["epoch"] == epoch]
        numbers += [number for bounds in self.ranges.get(epoch, ()) for number in bounds]
        return min(numbers), max(numbers)

    def told(self, epoch):
        """The messages in which the device told the lowest number that the broker had not acknowledged: [(number, time
        of receipt in s since 1970)], by time."""
        rows = [row for row in self.numbered if row["epoch"] == epoch and row["oldest"] is not None]
        return sorted(((row["oldest"], _seconds(row["received"])) for row in rows), key=lambda one: one[1])

    def deliveries(self, epoch, seq):
        """The deliveries of a number, as dicts, the first one first."""
        columns = ["received", "by", "topic", "qos", "dup", "kind", "made", "problem", "first"]
        found = self._read("raw", columns, self._is(epoch, seq))
        found.sort(key=lambda row: (not row["first"], row["received"]))
        return [row | {name: _seconds(row[name]) for name in ("received", "made")} for row in found]

    def _is(self, epoch, seq):
        return (arrow.field("epoch") == epoch) & (arrow.field("seq") == seq)

    def rows(self, epoch, seq):
        """{table: how many rows of it a number has}"""
        names = ("raw", "measurements", "health", "dead_letters")
        return {name: len(self._read(name, ["seq"], self._is(epoch, seq))) for name in names}

    def written(self, epoch, seq):
        """When the file of `raw` that has the number was written, in s since 1970; None without one."""
        table, rows = self._table("raw")
        actions = table.get_add_actions(flatten=True)
        files = zip(*(actions[name].to_pylist() for name in _FILE), strict=True)
        times = {path.rpartition("/")[2]: at / 1000 for path, at in files}
        wanted = (arrow.field("device") == self._device) & self._is(epoch, seq)
        for fragment in rows.get_fragments(filter=wanted):
            if fragment.count_rows(filter=wanted & arrow.field("first")):
                return times.get(fragment.path.rpartition("/")[2])
        return None

    def places(self, proof):
        """[(epoch, lowest, highest, place, proved)] of the numbers that have not arrived, as in views.missing()."""
        told = ", ".join(f"{sql} AS {name}" for name, sql in proof.told(repr).items())
        journals = _stepped(f"SELECT device, epoch, {told} FROM raw GROUP BY device, epoch", JOURNAL_STEPS)
        gaps = _stepped(f"SELECT * FROM gaps LEFT JOIN ({journals}) USING (device, epoch)", GAP_STEPS)
        parts = (f"SELECT epoch, {lo}, {hi}, {place}, tells FROM gaps_told" for lo, hi, place in GAP_PARTS)
        with self._database() as database:
            database.execute(f"CREATE TABLE gaps_told AS {gaps}")
            rows = database.execute(" UNION ALL ".join(parts)).fetchall()
        return [(*row[:4], proof.proved and bool(row[4])) for row in rows if row[1] <= row[2]]

    def counted(self):
        """{reason: how many numbers the device gave up for it}, by its counters."""
        query = _stepped("SELECT * FROM health WHERE accepted IS NOT NULL", (*HEALTH_STEPS, *ENDS_STEPS))
        with self._database() as database:
            (row,) = database.execute(f"SELECT {', '.join(COUNTED.values())} FROM ({query})").fetchall()
        return {name: value or 0 for name, value in zip(COUNTED, row, strict=True)}

    @contextlib.contextmanager
    def _database(self):
        """An SQLite database of the device."""
        with contextlib.closing(sqlite3.connect(":memory:")) as database:
            for name, function in (("least", min), ("greatest", max)):
                database.create_function(name, -1, _known(function), deterministic=True)
            database.executescript(_SCHEMA)
            for table, rows in (("raw", self._told()), ("gaps", self._gaps()), ("health", self._health())):
                if rows:
                    marks = ", ".join("?" * len(rows[0]))
                    database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
            yield database

    def _told(self):
        rows = (row for row in self.numbered if row["first"])
        return [(self._device, row["epoch"], row["seq"], _seconds(row["received"]), row["oldest"]) for row in rows]

    def _gaps(self):
        found = []
        for epoch, ranges in self.ranges.items():
            for (_, before), (after, _) in zip(ranges, ranges[1:], strict=False):
                if before + 1 < after:
                    found.append((self._device, epoch, before + 1, after - 1))
        return found

    def _health(self):
        names = ["epoch", "seq", "received", "up", "counters", "journal_damaged", "journal_skipped"]
        found = []
        for row in self._read("health", names):
            counters = dict(row["counters"] or ())
            found.append(
                (self._device, row["epoch"], row["seq"], _seconds(row["received"]), row["up"])
                + (counters.get("accepted"), counters.get("dropped"), row["journal_damaged"], row["journal_skipped"])
            )
        return found
