"""Other tools read the tables while batches are written, merged and vacuumed: no row comes twice, no batch is torn."""

import importlib.util
import os

import duckdb
import pytest
from deltalake import DeltaTable

from host_tests.docs.pages import blocks
from host_tests.tools.fleet.without_spark import delivery, health, telemetry
from inflight_tools.fleet.spark.tables import Table

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
BATCHES = 3
# Column of a table, and how many values or what sum a batch adds.
UNIQUE = {"raw": ("payload", 8), "measurements": ("seq", 4), "health": ("seq", 2), "dead_letters": ("payload", 2)}
SUMS = {"minutes": ("count", 4), "ledger": ("measurements", 4)}


def by_duckdb(table, column):
    if not (files := DeltaTable(table).file_uris()):
        return []
    with duckdb.connect() as connection:
        return [value for (value,) in connection.execute(f'SELECT "{column}" FROM read_parquet(?)', [files]).fetchall()]


def by_polars(table, column):
    import polars

    return polars.scan_delta(str(table)).select(column).collect()[column].to_list()


def by_pandas(table, column):
    return DeltaTable(table).to_pandas(columns=[column])[column].tolist()


READERS = {"duckdb": by_duckdb, "polars": by_polars, "pandas": by_pandas}
PRESENT = {name: read for name, read in READERS.items() if importlib.util.find_spec(name)}


def look(root, read):
    """Reads all tables. Returns how many batches they have."""
    for name, (column, each) in SUMS.items():
        total = sum(read(root / name, column))
        assert total % each == 0, (name, total)
    for name, (column, each) in UNIQUE.items():
        values = read(root / name, column)
        assert len(values) == len(set(values)) and len(values) % each == 0, (name, len(values))
    return len(values) // each


@pytest.fixture(scope="module")
def seen(common_fleet):
    """{reader: numbers of batches, or errors, that it found before each commit and after it}, after the last batch."""
    fleet, commit, found = common_fleet, Table.commit, {name: [] for name in PRESENT}

    def look_all():
        for name, read in PRESENT.items():
            try:
                found[name].append(look(fleet.root, read))
            except Exception as e:  # also what another library raises
                found[name].append(repr(e))

    def told(*args, **more):
        look_all()
        commit(*args, **more)
        look_all()

    fleet.tables.create()
    orphan = fleet.root / "raw/parts/0-killed"
    orphan.mkdir(parents=True)
    (orphan / "part-0.parquet").write_bytes(b"half a file")
    for path in (orphan / "part-0.parquet", orphan):
        os.utime(path, (0, 0))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Table, "commit", told)
        for batch in range(BATCHES):
            lines = [telemetry("attic", 6 * batch + n) for n in range(4)]
            lines += [health("attic", 6 * batch + 4 + n) for n in range(2)]
            fleet.land(*lines, *[delivery("attic/telemetry", f"nonsense {batch} {n}") for n in range(2)])
            fleet.run()
            if batch % 2:
                fleet.tables.merge()
                fleet.tables.vacuum()
                look_all()
    assert orphan.exists() and not list(orphan.iterdir())  # a driver may be about to write there
    os.utime(orphan, (0, 0))
    fleet.tables.vacuum()
    assert not orphan.exists()
    return found


@pytest.mark.parametrize("name", READERS)
def test_a_reader_sees_whole_batches_once(name, request):
    if name not in PRESENT:
        pytest.skip(f"{name} is not installed: run `make setup-pipeline`")
    assert set(request.getfixturevalue("seen")[name]) == set(range(BATCHES + 1))


def filtered(table):
    """How many rows pandas finds by a column that has no statistics."""
    return len(DeltaTable(table).to_pandas(filters=[("device", "=", "attic")]))


@pytest.mark.parametrize("table", [*UNIQUE, *SUMS])
def test_a_reader_finds_rows_by_a_column_without_statistics(table, seen, common_fleet):
    assert filtered(common_fleet.root / table) > 0


def test_tables_of_before_are_told_which_column_has_statistics(fleet):
    """Until then readers find nothing by another column."""
    fleet.land(telemetry("attic", 0))
    fleet.run()
    DeltaTable(fleet.root / "raw").alter.set_table_properties({"delta.dataSkippingStatsColumns": "received,device"})
    assert filtered(fleet.root / "raw") == 0
    fleet.tables.create()
    assert filtered(fleet.root / "raw") == 1


@pytest.mark.parametrize("block", [block for block in blocks("python") if block.page.name == "tables.md"], ids=str)
def test_the_queries_of_the_documentation(block, seen, common_fleet, monkeypatch, capsys):
    monkeypatch.chdir(common_fleet.root.parent)
    (common_fleet.root.parent / "telemetry").mkdir(exist_ok=True)
    if not (link := common_fleet.root.parent / "telemetry/tables").exists():
        link.symlink_to(common_fleet.root)
    missing = [name for name in READERS if f"import {name}" in block.text and name not in PRESENT]
    if missing:
        pytest.skip(f"{missing[0]} is not installed: run `make setup-pipeline`")
    exec(compile(block.text, str(block), "exec"), {})
    assert "attic" in capsys.readouterr().out
