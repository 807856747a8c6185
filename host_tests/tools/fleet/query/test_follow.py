"""`inflight fleet export --follow`: each measurement is in one file, once, whatever happens."""

import contextlib
import datetime
import functools
import itertools
import json
import random

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.transaction import AddAction, RemoveAction, Transaction

from host_tests.processes import Killed
from host_tests.thorough import more
from host_tests.tools.fleet.tables import AT
from inflight_tools.fleet.query import follow
from inflight_tools.fleet.query.follow import Follower, NotExported, line_of


def moment(s):
    return datetime.datetime.fromtimestamp(AT + s, datetime.timezone.utc)


class Written:
    """Tables with the commits that Spark's batches make, without Spark. `all`: the numbers of all readings that are
    dated; `undated`: of the others."""

    def __init__(self, root):
        self.root, self.all, self.undated, self._numbers = root, [], [], itertools.count()
        self._files = {}  # of the table: path, and the numbers in it
        self._names = itertools.count()
        self.batches = itertools.count()
        for name in ("ledger", "measurements"):
            self._create(name)

    def _create(self, name):
        columns = {"device": arrow.string(), "epoch": arrow.int64(), "seq": arrow.int64(), "place": arrow.int32()}
        columns |= dict.fromkeys(("received", "time"), arrow.timestamp("us", "UTC"))
        columns |= dict.fromkeys(("name", "unit", "clock"), arrow.string()) | {"value": arrow.float64()}
        self._schema = arrow.schema(columns.items())  # without what later versions added
        DeltaTable.create(self.root / name, Schema.from_arrow(self._schema))

    def table(self, name="measurements"):
        return DeltaTable(self.root / name)

    def _part(self, batch, numbers, kind=""):
        path = f"parts/{batch}-{next(self._names):08x}{kind}/part-0.parquet"
        (self.root / "measurements" / path).parent.mkdir(parents=True)
        row = {"device": "attic", "epoch": 7, "place": 0, "name": "load", "unit": "W"}
        rows = [row | {"seq": n, "value": n / 2, "time": moment(n), "received": moment(n)} for n in numbers]
        parquet.write_table(arrow.Table.from_pylist(rows, self._schema), self.root / "measurements" / path)
        return path

    def commit(self, added, removed, name="measurements", **transactions):
        """added: {path: numbers}."""
        adds = [AddAction(path, 1, {}, 0, True, json.dumps({"numRecords": len(n)})) for path, n in added.items()]
        gone = [RemoveAction(path, True, 0, 1, {}) for path in removed]
        told = [Transaction(app.replace("_", "-"), number) for app, number in transactions.items()]
        table = self.table(name)
        properties = CommitProperties(app_transactions=told)
        table.create_write_transaction(adds + gone, "append", table.schema(), commit_properties=properties)
        if name == "measurements":
            self._files |= added
            for path in removed:
                del self._files[path]

    def rows(self, batch, rows=2, undated=0):
        """What a batch writes before the ledger has it."""
        numbers, others = (list(itertools.islice(self._numbers, n)) for n in (rows, undated))
        parts = {self._part(batch, numbers): numbers} if numbers else {}
        parts |= {self._part(batch, others, "-undated"): others} if others else {}
        if parts:
            self.commit(parts, (), inflight=batch)
        self.all += numbers
        self.undated += others

    def end(self, batch):
        self.commit({}, (), "ledger", inflight=batch)

    def batch(self, **rows):
        batch = next(self.batches)
        self.rows(batch, **rows)
        self.end(batch)

    def _merge(self, batch, is_mine):
        if len(paths := [path for path in self._files if is_mine(path)]) > 1:
            numbers = [n for path in paths for n in self._files[path]]
            kind = "-undated" if "undated" in paths[0] else ""
            self.commit({self._part(batch, numbers, kind): numbers}, paths, inflight_merge=self.table().version())

    def merge(self):
        batch = max(int(path.split("/")[1].split("-")[0]) for path in self._files) if self._files else 0
        self._merge(batch, lambda path: "undated" not in path)
        self._merge(batch, lambda path: "undated" in path)

    def date(self):
        """One reading of each file without times."""
        paths = [path for path in self._files if "undated" in path]
        if paths:
            dated = [self._files[path][0] for path in paths]
            left = [n for path in paths for n in self._files[path][1:]]
            added = {self._part(0, dated): dated} | ({self._part(0, left, "-undated"): left} if left else {})
            self.commit(added, paths, inflight_merge=self.table().version())
            self.all += dated
            self.undated = left

    def drop(self, batch):
        """Takes away the rows of a batch that the ledger does not have."""
        paths = [path for path in self._files if path.startswith(f"parts/{batch}-")]
        self.all = [n for n in self.all if not any(n in self._files[path] for path in paths)]
        self.commit({}, paths, inflight_merge=self.table().version())


@pytest.fixture
def written(tmp_path):
    return Written(tmp_path / "tables")


@pytest.fixture
def to(tmp_path):
    return tmp_path / "out"


def read(to):
    """The numbers in the files; each file is taken away, as a loader may do."""
    found = []
    for path in sorted(to.glob("measurements-*.parquet")):
        found += parquet.read_table(path)["seq"].to_pylist()
        path.unlink()
    return found


def step(written, to, **how):
    """Exports as a process that starts and ends."""
    follower = Follower(written.root, to, **how)
    try:
        return follower.step()
    finally:
        follower.close()


def test_readings_are_exported_when_they_are_dated(written, to):
    written.batch(rows=1, undated=2)
    assert step(written, to) == 1
    written.date()
    assert step(written, to) is None  # a power cut could still take that commit back
    written.batch(rows=1)
    assert step(written, to) == 2 and sorted(read(to)) == sorted(written.all) and written.undated == [2]


def test_undated_readings_at_once(written, to):
    written.batch(rows=1, undated=2)
    assert step(written, to, undated=True) == 3
    written.date()
    written.batch(rows=1)
    assert step(written, to, undated=True) == 1 and sorted(read(to)) == [0, 1, 2, 3]


@pytest.mark.parametrize("exported_before", [True, False])
def test_a_batch_that_is_given_up_is_not_exported(written, to, exported_before):
    """As `--new-checkpoint` does: the ledger goes on behind its number."""
    written.batch(rows=1)
    if exported_before:
        step(written, to)
    batch = next(written.batches)
    written.rows(batch, rows=2)
    step(written, to)
    written.drop(batch)
    step(written, to)
    written.batch(rows=0)
    step(written, to)
    written.batch(rows=1)
    step(written, to)
    assert sorted(read(to)) == written.all == [0, 3]


@pytest.mark.parametrize("seed", [*range(3), *more(*range(3, 20))])
def test_any_history_with_kills_and_a_loader_that_deletes_what_it_has_read(written, to, seed, monkeypatch):
    dice = random.Random(seed)
    found, open_batch = [], None

    def maybe(function):
        def call(*args):
            if dice.random() < 0.15:
                raise Killed
            done = function(*args)
            if dice.random() < 0.1:
                raise Killed
            return done

        return call

    for _ in range(40):
        what = dice.choice(("batch", "batch", "rows", "merge", "date", "drop", "export", "export", "read"))
        if what == "batch":
            if open_batch is None:
                written.batch(rows=dice.randint(0, 3), undated=dice.choice((0, 0, 2)))
            else:
                written.end(open_batch)
                open_batch = None
        elif what == "rows" and open_batch is None:
            open_batch = next(written.batches)
            written.rows(open_batch, rows=dice.randint(0, 3))
        elif what == "merge" and open_batch is None:
            written.merge()
        elif what == "date" and open_batch is None:
            written.date()
        elif what == "drop" and open_batch is not None:
            written.drop(open_batch)
            open_batch = None
        elif what == "export":
            with monkeypatch.context() as patched:
                patched.setattr(follow.os, "replace", maybe(follow.os.replace))
                patched.setattr(follow, "sync", maybe(follow.sync))
                with contextlib.suppress(Killed):
                    step(written, to)
        elif what == "read":
            found += read(to)
    if open_batch is not None:
        written.end(open_batch)
    written.batch(rows=1)
    step(written, to)
    found += read(to)
    assert sorted(found) == sorted(written.all)


def test_what_cannot_be_exported_once_is_told(written, to, tmp_path):
    written.batch(rows=1)
    written.batch(rows=1)
    step(written, to)
    with pytest.raises(NotExported, match="was begun with --format parquet: give that, or another folder"):
        Follower(written.root, to, "line-protocol")
    other = Written(tmp_path / "others")
    other.batch(rows=1)
    with pytest.raises(NotExported, match="is of other tables: give another folder"):
        step(other, to)
    position = to / ".position.json"
    known = position.read_text()
    for damage in ("", "[]", '{"version": "x"}', known[:20]):
        position.write_text(damage)
        with pytest.raises(NotExported, match="is damaged: restore it, or begin in another folder; device, epoch, seq"):
            Follower(written.root, to)
    position.unlink()
    with pytest.raises(NotExported, match="is missing: restore it"):
        Follower(written.root, to)
    position.write_text(known)
    assert step(written, to) is None


def test_an_export_that_is_too_far_behind(written, to):
    written.batch(rows=1)
    step(written, to)
    written.batch(rows=1)
    logs = written.root / "measurements/_delta_log"
    commit = logs / "00000000000000000002.json"
    kept = commit.read_bytes()
    written.batch(rows=1)
    for path in (written.root / "measurements/parts").glob("1-*/*"):
        path.rename(path.with_name("away"))
        with pytest.raises(NotExported, match="more than a day behind the tables"):
            step(written, to)
        path.with_name("away").rename(path)
    written.table().create_checkpoint()
    commit.unlink()
    with pytest.raises(NotExported, match="more than a day behind the tables"):
        step(written, to)
    commit.write_bytes(kept)
    assert step(written, to) == 2


def test_tables_that_were_repaired(written, to):
    written.batch(rows=1)
    version = written.table().version()
    written.batch(rows=1)
    step(written, to)
    written.table().restore(version)
    written.batch(rows=1)
    with pytest.raises(NotExported, match="were repaired, and rows .* come again: begin in another folder"):
        step(written, to)


def test_two_exports_at_once(written, to):
    first = Follower(written.root, to)
    with pytest.raises(Exception, match="another export writes to"):
        Follower(written.root, to)
    first.close()


def test_both_formats(written, to):
    written.batch(rows=2)
    assert step(written, to) == 2
    (path,) = to.glob("*.parquet")
    row = min(parquet.read_table(path).to_pylist(), key=lambda row: row["seq"])
    assert row["time"] == moment(0) and (row["device"], row["value"], row["up"]) == ("attic", 0.0, None)
    assert row.keys() >= {"sum", "flag", "text", "data", "clock"}  # also those that the files lack
    assert path.name == "measurements-00000000000000000001.parquet"
    to = to.with_name("lines")
    assert step(written, to, form="line-protocol") == 2
    (path,) = to.glob("measurements-*")
    lines = [f"load,device=attic,unit=W value={n / 2} {10**9 * (AT + n)}" for n in range(2)]
    assert path.name.endswith(".lp") and sorted(path.read_text().splitlines()) == lines


# Of a name of device, measurement, unit, text and data: how it stands as a word and as a text.
WORDS = {
    "a b": ("a\\ b", "a b"),
    "a,b": ("a\\,b", "a,b"),
    "a=b": ("a\\=b", "a=b"),
    'a"b': ('a"b', 'a\\"b'),
    "töne": ("töne", "töne"),
    "#a": ("#a", "#a"),
    "a\\": ("a_", "a\\\\"),
    "a\nb": ("a_b", "a\\\\nb"),
    "a\u2028b": ("a_b", "a\\\\u2028b"),
}


@pytest.mark.parametrize("name", WORDS)
def test_names_and_texts_stay_what_they_are(name):
    """By the rules of InfluxDB's documentation. A line that begins with # would be a comment."""
    word, text = WORDS[name]
    fields = f'data="{text}",flag=true,sum=-2.0,text="{text}",value=1.5'
    line = line_of(name, name, name, 5_000_001, 1.5, name, True, name, -2.0)
    assert line == f"{word.replace('#', '_')},device={word},unit={word} {fields} 5000001000\n"


def test_what_has_no_value_is_no_line():
    assert line_of("attic", "load", None, 7, None, None, None, None, None) == ""
    assert line_of("attic", "load", None, 7, float("inf"), None, None, None, float("nan")) == ""
    assert line_of("attic", "on", None, 7, None, None, False, None, None) == "on,device=attic flag=false 7000\n"


def test_the_command(written, to, run):
    export = functools.partial(run, "export", to)
    written.batch(rows=3)
    status, _, error = export("--follow", "--once")
    assert status == 0 and "exported 3 measurements" in error, error
    status, output, _ = export("--follow", "--once", "--json")
    assert status == 0 and output == ""
    written.batch(rows=2)
    assert json.loads(export("--follow", "--once", "--json")[1]) == {"measurements": 2}
    assert len(list(to.glob("*.parquet"))) == 2
    status, _, error = export("--follow", "--once", "--undated")
    assert status == 1 and "was begun with --format parquet: give that" in error
    for words in (("--follow", "--since", "1d"), ("--once",), ("--undated",), ("--format", "line-protocol")):
        status, _, error = export(*words)
        assert status == 2 and "--follow" in error, words
