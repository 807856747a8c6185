"""The driver is killed at any instant: no row is lost, none stands twice."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TELEMETRY = Path(__file__).resolve().parents[3] / "tools/telemetry.py"
FILES, EACH = 12, 50


def started(folder, *more):
    argv = [sys.executable, TELEMETRY, "tables", "--data", folder, "--master", "local[2]", "--partitions", "2", *more]
    log = open(folder / "log", "ab")  # noqa: SIM115 (the process has it)
    return subprocess.Popen([str(word) for word in argv], stdout=log, stderr=log, start_new_session=True)


def end(process):
    """As a power cut does it: Python, the Java below it and the workers below that, all at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def batches(folder):
    return len(list(folder.glob("tables/raw/batch=*/_SUCCESS")))


@pytest.mark.limit(900)
def test_a_driver_that_is_killed_again_and_again(fleet, telemetry, tmp_path):
    """Each life is ended at some instant after another batch was begun or done."""
    dice = random.Random(7)
    for n in range(FILES):
        fleet.land(*[telemetry(f"d{i % 5}", (n * EACH + i) // 5) for i in range(EACH)], telemetry("d0", n))
    cuts = 0
    while batches(tmp_path) < FILES - 2:
        before = batches(tmp_path)
        process = started(tmp_path, "--files", "1", "--every", "0.1")
        limit = time.monotonic() + 300
        while batches(tmp_path) == before:
            assert process.poll() is None and time.monotonic() < limit, (tmp_path / "log").read_text()[-2000:]
            time.sleep(0.01)
        time.sleep(dice.uniform(0, 3))  # any instant will do
        end(process)
        cuts += 1
    process = started(tmp_path, "--once")
    assert process.wait(300) == 0, (tmp_path / "log").read_text()[-2000:]
    expected = sorted((f"d{i}", 7, n) for i in range(5) for n in range(FILES * EACH // 5))
    assert fleet.numbers() == fleet.numbers("measurements", "true") == expected
    assert fleet.tables.raw.read().count() == FILES * (EACH + 1)
    assert sum(row["repeated"] for row in fleet.tables.ledger.read().collect()) == FILES
    assert sum(row["count"] for row in fleet.tables.minutes.read().collect()) == len(expected)
    assert cuts >= 2
    assert not list(fleet.landing.glob("*.ndjson")), "what was read is not put away"


def test_tables_of_another_fleet_or_version_are_refused(fleet, telemetry):
    from pipeline.stream import WrongTables, start

    fleet.land(telemetry("attic", 0))
    fleet.run()
    with pytest.raises(WrongTables, match="of topics inflight, this is elsewhere: go on with that, or give an empty"):
        start(fleet.tables.raw._spark, fleet.landing, fleet.root, "elsewhere", once=True)


def test_a_merge_that_was_killed_is_made_good(fleet, telemetry, monkeypatch):
    monkeypatch.setattr("pipeline.tables.FANOUT", 2)
    for n in range(5):
        fleet.land(telemetry("attic", n))
    fleet.run(files=1)
    table = fleet.tables.raw
    monkeypatch.setattr(table, "_sweep", lambda: None)  # the power goes before what was merged is removed,
    table._replace(table.spans()[:2])
    monkeypatch.undo()
    half = fleet.root / "raw/_batch=2-3"  # and once more while another range is being written
    half.mkdir()
    (half / "part-0.parquet").write_bytes(b"half a file")
    assert fleet.numbers() == [("attic", 7, n) for n in range(5)]
    monkeypatch.setattr("pipeline.tables.FANOUT", 2)
    assert table.merge() > 0
    assert fleet.numbers() == [("attic", 7, n) for n in range(5)]
    names = sorted(folder.name for folder in (fleet.root / "raw").iterdir() if not folder.name.startswith("_"))
    assert names == ["batch=0-3", "batch=4"]
    fleet.land(telemetry("attic", 4), telemetry("attic", 5))
    fleet.run()
    assert fleet.numbers() == [("attic", 7, n) for n in range(6)]
