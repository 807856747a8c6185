"""The tables as Delta Lake: columns that are added, rows that grow old, tables of the format before."""

import datetime

import pytest

NOW = datetime.datetime(2025, 10, 9, 8, 53, 20, 999_999, tzinfo=datetime.timezone.utc)
DAY = datetime.timedelta(days=1)
SCHEMA = "n bigint, received timestamp"


@pytest.fixture
def table(spark, tmp_path):
    """table(schema) is a table with rows of these columns."""
    from inflight_tools.fleet.spark.tables import Table

    def make(schema=SCHEMA):
        found = Table(spark, tmp_path, "rows", schema)
        found.create()
        return found

    return make


def values(table, column="n"):
    return [row[column] for row in table.read().orderBy("n").collect()]


def test_a_later_version_adds_columns(spark, table, tmp_path):
    from deltalake import DeltaTable

    table().write(spark.createDataFrame([(1, NOW)], SCHEMA), 0)
    more = f"{SCHEMA}, name string"
    table(more).write(spark.createDataFrame([(2, NOW, "attic")], more), 1)
    assert values(table(more), "name") == [None, "attic"]
    assert sorted(DeltaTable(tmp_path / "rows").to_pandas()["name"].tolist(), key=str) == [None, "attic"]
    assert values(table()) == [1, 2]  # an older version, again


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
    import pyarrow
    from deltalake import DeltaTable

    table().write(spark.createDataFrame([(1, NOW), (2, None), (3, NOW - DAY)], SCHEMA).coalesce(1), 0)
    (found,) = pyarrow.table(DeltaTable(tmp_path / "rows").get_add_actions(flatten=True)).to_pylist()
    assert found["num_records"] == 3
    assert found["min.received"] <= NOW - DAY and found["max.received"] >= NOW
    assert found["max.received"] - found["min.received"] <= DAY + datetime.timedelta(milliseconds=1)


def test_merged_files_have_the_rows_of_a_device_together(spark, table, tmp_path):
    from deltalake import DeltaTable

    schema = f"device string, {SCHEMA}"
    rows = table(schema)
    for batch in range(3):
        found = [(device, 3 * n + batch, NOW) for n, device in enumerate(("cellar", "attic", "barn"))]
        rows.write(spark.createDataFrame(found, schema), batch)
    rows.merge(2)
    assert DeltaTable(tmp_path / "rows").to_pandas()["device"].tolist() == 3 * ["attic"] + 3 * ["barn"] + 3 * ["cellar"]


def test_tables_of_the_format_before_are_refused(fleet, telemetry):
    from inflight_tools.fleet.delta import WrongTables

    (fleet.root / "raw/batch=0").mkdir(parents=True)
    fleet.land(telemetry("attic", 0))
    for command in (fleet.run, fleet.facts, fleet.tables.merge):
        with pytest.raises(WrongTables, match="format before Delta Lake: .*move the files below .*landed back to the"):
            command()
