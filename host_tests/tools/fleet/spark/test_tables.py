"""The tables as Delta Lake: columns that are added, rows that grow old, tables of the format before."""

import contextlib
import datetime
import functools

import pyarrow
import pyarrow.parquet
import pytest
from datasketches import kll_doubles_sketch
from deltalake import DeltaTable

from host_tests.tools.fleet import without_spark
from host_tests.tools.fleet.spark.with_spark import Fleet
from host_tests.tools.fleet.without_spark import AT, delivery, health, telemetry
from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.spark.tables import Table

NOW = datetime.datetime(2025, 10, 9, 8, 53, 20, 999_999, tzinfo=datetime.timezone.utc)
DAY = datetime.timedelta(days=1)
SCHEMA = "n bigint, received timestamp"


@pytest.fixture
def table(spark, tmp_path):
    """table(schema) is a table with rows of these columns."""

    def make(schema=SCHEMA):
        found = Table(spark, tmp_path, "rows", schema)
        found.create()
        return found

    return make


def values(table, column="n"):
    return [row[column] for row in table.read().orderBy("n").collect()]


def test_a_later_version_adds_columns(spark, table, tmp_path):
    table().write(spark.createDataFrame([(1, NOW)], SCHEMA), 0)
    statistics = {"delta.dataSkippingStatsColumns": "received,n"}  # a reader finds nothing by one without any
    DeltaTable(tmp_path / "rows").alter.set_table_properties(statistics)
    more = f"{SCHEMA}, name string"
    table(more).write(spark.createDataFrame([(2, NOW, "attic")], more), 1)
    assert values(table(more), "name") == [None, "attic"]
    assert sorted(DeltaTable(tmp_path / "rows").to_pandas()["name"].tolist(), key=str) == [None, "attic"]
    assert values(table()) == [1, 2]  # an older version, again
    assert DeltaTable(tmp_path / "rows").metadata().configuration["delta.dataSkippingStatsColumns"] == "received"


def test_rows_that_are_too_old_are_deleted(spark, table):
    """In files of old rows, of new ones, and of both, once. Rows without a time stay."""
    rows = table()
    for batch, times in enumerate([(NOW - DAY,), (NOW - DAY, NOW), (NOW,), (None,)]):
        found = [(2 * batch + n, time) for n, time in enumerate(times)]
        rows.write(spark.createDataFrame(found, SCHEMA).coalesce(1), batch)
    assert rows.merge(0, NOW - DAY) == 0 and values(rows) == [0, 2, 3, 4, 6]
    assert rows.merge(3, NOW) == 4 and values(rows) == [3, 4, 6]
    assert rows.merge(3, NOW) == 0


def test_rows_are_old_by_another_column(spark, table):
    """Of which only the files tell."""
    schema = "n bigint, minute timestamp"
    rows = table(schema)
    for batch, times in enumerate([(NOW - DAY, NOW), (NOW,), (None,)]):
        found = [(2 * batch + n, time) for n, time in enumerate(times)]
        rows.write(spark.createDataFrame(found, schema).coalesce(1), batch)
    assert rows.merge(2, NOW - DAY, "minute") == 3 and values(rows) == [0, 1, 2, 4]
    assert rows.merge(2, NOW - DAY, "minute") == 0
    assert rows.merge(2, NOW, "minute") == 1 and values(rows) == [1, 2, 4]
    assert rows.merge(2, NOW, "minute") == 0


def test_files_say_when_their_rows_were_received(spark, table, tmp_path):
    """In milliseconds, so that a reader leaves out no file that it needs."""
    table().write(spark.createDataFrame([(1, NOW), (2, None), (3, NOW - DAY)], SCHEMA).coalesce(1), 0)
    (found,) = pyarrow.table(DeltaTable(tmp_path / "rows").get_add_actions(flatten=True)).to_pylist()
    assert found["num_records"] == 3
    assert found["min.received"] <= NOW - DAY and found["max.received"] >= NOW
    assert found["max.received"] - found["min.received"] <= DAY + datetime.timedelta(milliseconds=1)


@pytest.mark.long("INFLIGHT_TOOLS")
def test_merged_files_have_the_rows_of_a_device_together(spark, table, tmp_path):
    schema = f"device string, {SCHEMA}"
    rows = table(schema)
    for batch in range(3):
        found = [(device, 3 * n + batch, NOW) for n, device in enumerate(("cellar", "attic", "barn"))]
        rows.write(spark.createDataFrame(found, schema), batch)
    rows.merge(2)
    assert DeltaTable(tmp_path / "rows").to_pandas()["device"].tolist() == 3 * ["attic"] + 3 * ["barn"] + 3 * ["cellar"]


def test_tables_of_the_format_before_are_refused(fleet):
    (fleet.root / "raw/batch=0").mkdir(parents=True)
    fleet.land(telemetry("attic", 0))
    for command in (fleet.run, fleet.facts, fleet.tables.merge):
        with pytest.raises(WrongTables, match="format before Delta Lake: .*move the files below .*landed back to the"):
            command()


def everything():
    """Two landing files with rows of all tables; the second one has repetitions of the first one."""
    undated = {"seq": 10, "epoch": 7, "bn": "urn:dev:mac:attic:", "bt": 0, "up": 3.5}
    dating = {"seq": 12, "epoch": 7, "bn": "urn:dev:mac:attic:", "bt": 1_760_000_000, "up": 60, "boot": 10}
    given = {"expiry": 60, "content_type": "a", "correlation": "/wA=", "user_properties": [["b", "1"], ["b", "2"]]}
    first = [
        *(telemetry("attic", n, 20 + n / 8, at=AT + 20_000 * n, bt=AT / 1000) for n in range(5)),
        telemetry("attic", 5, properties=given),
        health("attic", 6, errors={"sht31": "no answer"}, wake={"timer": 3}),
        delivery("attic/telemetry", [undated | {"n": "t", "u": "Cel", "v": 1}, {"n": "open", "vb": True}]),
        delivery("attic/telemetry", [undated | {"seq": 20, "n": "note", "vs": "\u00fc"}]),
        delivery("attic/telemetry", "no JSON", properties=given),
        delivery("attic/telemetry", [{"n": "t", "v": 1}]),
    ]
    yield first
    dated = [delivery("attic/telemetry", [one]) for one in (dating, undated | {"seq": 11, "n": "t", "v": 2})]
    yield [*first[:3], *dated, health("cellar", 0), telemetry("cellar", 1), telemetry("cellar", 1, dup=True)]


def sketched(row):
    """The row with the quantiles of its sketch: it has its values in the order of their arrival."""
    quantiles = {
        name: kll_doubles_sketch.deserialize(row[name]).get_quantiles([n / 20 for n in range(21)])
        for name in ("sketch", "latency")
        if row.get(name)
    }
    return repr(row | {name: list(found) for name, found in quantiles.items()})


@contextlib.contextmanager
def many(monkeypatch):
    """A context in which no rows are few."""
    with monkeypatch.context() as patched:
        for module in ("batch", "tables"):
            patched.setattr(f"inflight_tools.fleet.spark.{module}.FEW", -1)
        yield


COMPARED = {name: f"SELECT * EXCLUDE (filename) FROM {name}" for name in (*without_spark.SCHEMAS, "clocks")}
COMPARED["raw"] = "SELECT * EXCLUDE (filename, digest) FROM raw"  # of the payload, by another function without Spark


def are_alike(first, second, names):
    for name in names:
        rows = [sorted(map(sketched, fleet.rows(COMPARED[name]))) for fleet in (first, second)]
        assert rows[0] == rows[1] != [], name


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.parametrize("other", ["many", "uri"])
def test_few_rows_are_written_as_many_are_and_at_a_uri(spark, tmp_path, monkeypatch, other):
    """One task for a batch, and this process for the files, change nothing of a table; nor does a URI, nor a merge."""
    first, second = Fleet(spark, tmp_path / "few"), Fleet(spark, tmp_path / other, as_uri=other == "uri")
    plain = contextlib.nullcontext
    how = {first: plain, second: plain if other == "uri" else functools.partial(many, monkeypatch)}
    for lines in everything():
        for fleet in (first, second):
            fleet.land(*lines)
            with how[fleet]():
                fleet.run()
    are_alike(first, second, COMPARED)
    for fleet in (first, second):
        with how[fleet]():
            fleet.tables.merge()
            fleet.tables.ledger.merge(fleet.tables.last_batch())
    are_alike(first, second, COMPARED)
    assert first.facts()["differences"] == []


def test_the_tables_without_spark_are_those_of_spark(spark, tmp_path):
    """What other tests make instead of batches. Spark writes them by a URI, as in object storage."""
    with_spark, without = Fleet(spark, tmp_path / "with", as_uri=True), without_spark.Fleet(tmp_path / "without")
    lines = [*next(everything()), telemetry("attic", 3, dup=True), telemetry("attic", 30, at=AT + 70_000)]
    lines += [telemetry("powers", (1 << n) - 1, epoch=1 << n, value=2.0**n) for n in range(34)]  # two are dead letters
    records = [{"n": f"t{n}", "u": "V", "v": n} for n in range(1000)]
    lines += [delivery("attic/telemetry", [{"seq": 50, "epoch": 7} | records[0], *records[1:]]), '{"at": 17600']
    for fleet in (with_spark, without):
        fleet.land(*lines)
        fleet.run()
    are_alike(with_spark, without, without_spark.SCHEMAS)
