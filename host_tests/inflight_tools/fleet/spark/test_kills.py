"""The driver is killed at random times: no row is lost, none is stored twice."""

import os
import random
import signal
import subprocess
import time

import pytest

from host_tests.processes import INFLIGHT

FILES, EACH = 12, 50
KILLS = 6
_PATIENCE_S = 240


class Driver:
    """`inflight fleet tables` on the folder, as a process. At the end it is killed, with its child processes."""

    def __init__(self, folder, *more):
        argv = [*INFLIGHT, "fleet", "tables", "--data", folder, "--master", "local[2]", "--partitions", "2", *more]
        self._log = folder / "log"
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in argv], stdout=log, stderr=log, start_new_session=True
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def until(self, condition):
        end = time.monotonic() + _PATIENCE_S
        while not condition():
            assert self.process.poll() is None and time.monotonic() < end, self._log.read_text()[-2000:]
            time.sleep(0.005)

    def finish(self):
        assert self.process.wait(_PATIENCE_S) == 0, self._log.read_text()[-2000:]


@pytest.mark.long("INFLIGHT_PIPELINE")
@pytest.mark.timeout(1800)
def test_a_driver_is_killed_repeatedly(fleet, telemetry, tmp_path):
    """Each driver is killed at a random time after it has begun another batch."""
    dice = random.Random(7)
    for n in range(FILES):
        fleet.land(*[telemetry(f"d{i % 5}", (n * EACH + i) // 5) for i in range(EACH)], telemetry("d0", n))
    for _ in range(KILLS):
        begun = len(list(tmp_path.glob("tables/raw/batch=*")))
        with Driver(tmp_path, "--files", "1", "--every", "0.1") as driver:
            driver.until(lambda begun=begun: len(list(tmp_path.glob("tables/raw/batch=*"))) > begun)
            time.sleep(dice.uniform(0, 1.5))  # a random time, not a synchronisation
    with Driver(tmp_path, "--once") as driver:
        driver.finish()
    expected = sorted((f"d{i}", 7, n) for i in range(5) for n in range(FILES * EACH // 5))
    assert fleet.numbers() == fleet.numbers("measurements", "true") == expected
    assert fleet.tables.raw.read().count() == FILES * (EACH + 1)
    assert sum(row["repeated"] for row in fleet.tables.ledger.read().collect()) == FILES
    assert sum(row["count"] for row in fleet.tables.minutes.read().collect()) == len(expected)


def test_a_repeated_batch_replaces_its_rows(spark, fleet, telemetry):
    """Spark repeats a batch, with its number, if the driver was killed before it had recorded its end."""
    from inflight_tools.fleet.spark.batch import take

    def batch(number, *seqs):
        lines = [(bytearray(telemetry("attic", seq), "utf-8"),) for seq in seqs]
        take(spark.createDataFrame(lines, "value BINARY"), number, fleet.root, "inflight")

    batch(0, 0, 1)
    for _ in range(2):
        batch(1, 1, 2, 3)
    assert fleet.numbers() == fleet.numbers("measurements", "true") == [("attic", 7, n) for n in range(4)]
    assert fleet.tables.raw.read().count() == 5
    (known,) = fleet.tables.ledger.read().collect()
    assert ([tuple(found) for found in known["ranges"]], known["repeated"]) == ([(0, 3)], 1)


def test_a_merge_that_was_killed_is_repaired(fleet, telemetry, monkeypatch):
    monkeypatch.setattr("inflight_tools.fleet.spark.tables.FANOUT", 2)
    for n in range(5):
        fleet.land(telemetry("attic", n))
    fleet.run(files=1)
    table = fleet.tables.raw
    monkeypatch.setattr(table, "_sweep", lambda: None)  # killed before the merged folders are removed,
    table._replace(table.spans()[:2])
    monkeypatch.undo()
    half = fleet.root / "raw/batch=2-3"  # and killed again while it writes another range
    half.mkdir()
    (half / "part-0.parquet").write_bytes(b"half a file")
    assert fleet.numbers() == [("attic", 7, n) for n in range(5)]
    monkeypatch.setattr("inflight_tools.fleet.spark.tables.FANOUT", 2)
    assert table.merge() > 0
    assert fleet.numbers() == [("attic", 7, n) for n in range(5)]
    names = sorted(folder.name for folder in (fleet.root / "raw").iterdir())
    assert names == ["batch=0-3", "batch=4"]
    fleet.land(telemetry("attic", 4), telemetry("attic", 5))
    fleet.run()
    assert fleet.numbers() == [("attic", 7, n) for n in range(6)]
