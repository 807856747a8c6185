"""Other tools read the tables while batches are written, merged and vacuumed: no row comes twice, no batch is torn."""

import importlib.util
import os
import threading
from collections import Counter

import pytest

from host_tests.docs.pages import blocks

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
BATCHES = 3
# Column of a table, and how many values or what sum a batch adds.
UNIQUE = {"raw": ("payload", 8), "measurements": ("seq", 4), "health": ("seq", 2), "dead_letters": ("payload", 2)}
SUMS = {"minutes": ("count", 4), "ledger": ("measurements", 4)}


def by_duckdb(table, column):
    import duckdb
    from deltalake import DeltaTable

    if not (files := DeltaTable(table).file_uris()):
        return []
    with duckdb.connect() as connection:
        return [value for (value,) in connection.execute(f'SELECT "{column}" FROM read_parquet(?)', [files]).fetchall()]


def by_polars(table, column):
    import polars

    return polars.scan_delta(str(table)).select(column).collect()[column].to_list()


def by_pandas(table, column):
    from deltalake import DeltaTable

    return DeltaTable(table).to_pandas(columns=[column])[column].tolist()


READERS = {"duckdb": by_duckdb, "polars": by_polars, "pandas": by_pandas}
PRESENT = {name: read for name, read in READERS.items() if importlib.util.find_spec(name)}


class Reader(threading.Thread):
    """Reads all tables whenever a table has changed. `found`: how often it found each number of batches; `errors`."""

    def __init__(self, root, read):
        super().__init__(daemon=True)
        self._root, self._read = root, read
        self._asked, self._looked, self._ended = (threading.Event() for _ in range(3))
        self.found, self.errors = Counter(), []

    def run(self):
        while True:
            self._asked.wait()
            self._asked.clear()
            if self._ended.is_set():
                return
            try:
                self.found[self._look()] += 1
            except Exception as e:  # also what another library raises
                self.errors.append(repr(e))
            self._looked.set()

    def _look(self):
        for name, (column, each) in SUMS.items():
            total = sum(self._read(self._root / name, column))
            assert total % each == 0, (name, total)
        for name, (column, each) in UNIQUE.items():
            values = self._read(self._root / name, column)
            assert len(values) == len(set(values)) and len(values) % each == 0, (name, len(values))
        return len(values) // each

    def look(self):
        """It reads everything once more. Does not wait for it."""
        self._asked.set()

    def look_again(self):
        """Returns when it has read everything as it is now, once at least."""
        for _ in range(2):  # the first one may have begun before
            self._looked.clear()
            self.look()
            self._looked.wait()

    def finish(self):
        self._ended.set()
        self.look()
        self.join()


@pytest.fixture(scope="module")
def readers(common_fleet, telemetry, health, message):
    """A Reader for each tool, after the last batch."""
    from inflight_tools.fleet.spark.tables import Table

    fleet = common_fleet
    commit = Table.commit

    def told(*args, **more):
        commit(*args, **more)
        for reader in found.values():
            reader.look()

    fleet.tables.create()
    found = {name: Reader(fleet.root, read) for name, read in PRESENT.items()}
    for reader in found.values():
        reader.start()
    orphan = fleet.root / "raw/parts/0-killed"
    orphan.mkdir(parents=True)
    (orphan / "part-0.parquet").write_bytes(b"half a file")
    for path in (orphan / "part-0.parquet", orphan):
        os.utime(path, (0, 0))
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Table, "commit", told)
            for batch in range(BATCHES):
                lines = [telemetry("attic", 6 * batch + n) for n in range(4)]
                lines += [health("attic", 6 * batch + 4 + n) for n in range(2)]
                fleet.land(*lines, *[message("attic/telemetry", f"nonsense {batch} {n}") for n in range(2)])
                fleet.run()
                if batch % 2:
                    fleet.tables.merge()
                    fleet.tables.vacuum()
                for reader in found.values():
                    reader.look_again()
        assert orphan.exists() and not list(orphan.iterdir())  # a driver may be about to write there
        os.utime(orphan, (0, 0))
        fleet.tables.vacuum()
        assert not orphan.exists()
    finally:
        for reader in found.values():
            reader.finish()
    return found


@pytest.mark.parametrize("name", READERS)
def test_a_reader_sees_whole_batches_once(name, request):
    if name not in PRESENT:
        pytest.skip(f"{name} is not installed: run `make setup-pipeline`")
    reader = request.getfixturevalue("readers")[name]
    assert reader.errors == []
    assert reader.found.keys() >= set(range(1, BATCHES + 1))


def filtered(table):
    """How many rows pandas finds by a column that has no statistics."""
    from deltalake import DeltaTable

    return len(DeltaTable(table).to_pandas(filters=[("device", "=", "attic")]))


@pytest.mark.parametrize("table", [*UNIQUE, *SUMS])
def test_a_reader_finds_rows_by_a_column_without_statistics(table, readers, common_fleet):
    assert filtered(common_fleet.root / table) > 0


def test_tables_of_before_are_told_which_column_has_statistics(fleet, telemetry):
    """Until then readers find nothing by another column."""
    from deltalake import DeltaTable

    fleet.land(telemetry("attic", 0))
    fleet.run()
    DeltaTable(fleet.root / "raw").alter.set_table_properties({"delta.dataSkippingStatsColumns": "received,device"})
    assert filtered(fleet.root / "raw") == 0
    fleet.tables.create()
    assert filtered(fleet.root / "raw") == 1


@pytest.mark.parametrize("block", [block for block in blocks("python") if block.page.name == "tables.md"], ids=str)
def test_the_queries_of_the_documentation(block, readers, common_fleet, monkeypatch, capsys):
    monkeypatch.chdir(common_fleet.root.parent)
    (common_fleet.root.parent / "telemetry").mkdir(exist_ok=True)
    if not (link := common_fleet.root.parent / "telemetry/tables").exists():
        link.symlink_to(common_fleet.root)
    missing = [name for name in READERS if f"import {name}" in block.text and name not in PRESENT]
    if missing:
        pytest.skip(f"{missing[0]} is not installed: run `make setup-pipeline`")
    exec(compile(block.text, str(block), "exec"), {})
    assert "attic" in capsys.readouterr().out
