"""Other tools read tables that are written, merged and vacuumed: no row comes twice. A commit is atomic, which is
delta-rs's promise."""

import importlib.util
import os

import duckdb
import pytest
from deltalake import DeltaTable

from host_tests.docs.pages import blocks
from host_tests.tools.fleet.without_spark import delivery, health, telemetry

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


READERS = {"duckdb": by_duckdb, "polars": by_polars}
READERS["pandas"] = lambda table, column: DeltaTable(table).to_pandas(columns=[column])[column].tolist()
PRESENT = {name: read for name, read in READERS.items() if importlib.util.find_spec(name)}


@pytest.fixture(scope="module")
def written(common_fleet):
    """A fleet with batches, of which some are merged, and a file of a driver that was killed."""
    fleet = common_fleet
    fleet.tables.create()
    orphan = fleet.root / "raw/parts/0-killed"
    orphan.mkdir(parents=True)
    (orphan / "part-0.parquet").write_bytes(b"half a file")
    for path in (orphan / "part-0.parquet", orphan):
        os.utime(path, (0, 0))
    for batch in range(BATCHES):
        lines = [telemetry("attic", 6 * batch + n) for n in range(4)]
        lines += [health("attic", 6 * batch + 4 + n) for n in range(2)]
        fleet.land(*lines, *[delivery("attic/telemetry", f"nonsense {batch} {n}") for n in range(2)])
        fleet.run()
        if batch % 2:
            fleet.tables.merge()
            fleet.tables.vacuum()
    assert orphan.exists() and not list(orphan.iterdir())  # a driver may be about to write there
    os.utime(orphan, (0, 0))
    fleet.tables.vacuum()
    assert not orphan.exists()
    return fleet


@pytest.mark.parametrize("name", READERS)
def test_a_reader_sees_each_row_once(name, written):
    if name not in PRESENT:
        pytest.skip(f"{name} is not installed: run `make setup-pipeline`")
    for table, (column, each) in UNIQUE.items():
        values = PRESENT[name](written.root / table, column)
        assert len(values) == len(set(values)) == each * BATCHES, table
    for table, (column, each) in SUMS.items():
        assert sum(PRESENT[name](written.root / table, column)) == each * BATCHES, table


@pytest.mark.parametrize("table", [*UNIQUE, *SUMS])
def test_pandas_finds_rows_by_a_column_without_statistics(table, written):
    assert len(DeltaTable(written.root / table).to_pandas(filters=[("device", "=", "attic")])) > 0


@pytest.mark.parametrize("block", [block for block in blocks("python") if block.page.name == "tables.md"], ids=str)
def test_the_queries_of_the_documentation(block, written, monkeypatch, capsys):
    monkeypatch.chdir(written.root.parent)
    (written.root.parent / "telemetry").mkdir(exist_ok=True)
    if not (link := written.root.parent / "telemetry/tables").exists():
        link.symlink_to(written.root)
    missing = [name for name in READERS if f"import {name}" in block.text and name not in PRESENT]
    if missing:
        pytest.skip(f"{missing[0]} is not installed: run `make setup-pipeline`")
    exec(compile(block.text, str(block), "exec"), {})
    assert "attic" in capsys.readouterr().out
