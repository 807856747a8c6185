"""The driver is killed at random times: no row is lost, none is stored twice."""

import contextlib
import functools
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from host_tests.processes import INFLIGHT

FILES, EACH = 12, 50
KILLS = 6
_PATIENCE_S = 240


class Driver:
    """`inflight fleet tables` on the folder, as a process. At the end it is killed, with its child processes."""

    def __init__(self, folder, *more):
        words = ("fleet", "tables", "--data", folder, "--master", "local[2]", "--partitions", "2", *more)
        self.argv = [*INFLIGHT, *map(str, words)]
        self._log = tempfile.NamedTemporaryFile()  # noqa: SIM115  # not in the folder, whose disk may be full
        log = {"stdout": self._log, "stderr": self._log}
        self.process = subprocess.Popen(self.argv, start_new_session=True, **log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def log(self):
        return Path(self._log.name).read_text()

    @contextlib.contextmanager
    def stopped(self):
        """A context in which it does nothing, as if the machine was slow."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        yield
        os.killpg(self.process.pid, signal.SIGCONT)

    def until(self, condition):
        end = time.monotonic() + _PATIENCE_S
        while not condition():
            assert self.process.poll() is None and time.monotonic() < end, self.log()[-2000:]
            time.sleep(0.005)

    def finish(self):
        assert self.process.wait(_PATIENCE_S) == 0, self.log()[-2000:]


@pytest.mark.long("INFLIGHT_PIPELINE")
@pytest.mark.timeout(1800)
def test_a_driver_is_killed_repeatedly(fleet, telemetry, tmp_path):
    """Each driver is killed at a random time after it has begun another batch."""
    dice = random.Random(7)
    for n in range(FILES):
        fleet.land(*[telemetry(f"d{i % 5}", (n * EACH + i) // 5) for i in range(EACH)], telemetry("d0", n))
    for _ in range(KILLS):
        begun = len(list(tmp_path.glob("tables/raw/parts/*")))
        with Driver(tmp_path, "--files", "1", "--every", "0.1") as driver:
            driver.until(lambda begun=begun: len(list(tmp_path.glob("tables/raw/parts/*"))) > begun)
            time.sleep(dice.uniform(0, 1.5))  # a random time, not a synchronisation
    with Driver(tmp_path, "--once") as driver:
        driver.finish()
    expected = sorted((f"d{i}", 7, n) for i in range(5) for n in range(FILES * EACH // 5))
    assert fleet.numbers() == fleet.numbers("measurements", "true") == expected
    assert fleet.tables.raw.read().count() == FILES * (EACH + 1)
    assert sum(row["repeated"] for row in fleet.tables.ledger.read().collect()) == FILES
    assert sum(row["count"] for row in fleet.tables.minutes.read().collect()) == len(expected)


@pytest.mark.long("INFLIGHT_PIPELINE")
@pytest.mark.timeout(1800)
def test_a_second_driver_is_refused_while_one_runs(fleet, telemetry, tmp_path):
    """What one has begun would look to the other like what a power cut has left."""
    for n in range(FILES):
        fleet.land(*[telemetry(f"d{i % 5}", (n * EACH + i) // 5) for i in range(EACH)])
    with Driver(tmp_path, "--files", "1", "--once") as driver:
        for begun in range(1, FILES - 2, 2):
            driver.until(lambda begun=begun: len(list(tmp_path.glob("tables/raw/parts/*"))) > begun)
            second = subprocess.run(driver.argv, capture_output=True, text=True, timeout=_PATIENCE_S)
            assert second.returncode == 1 and "another `inflight fleet tables`" in second.stderr
        driver.finish()
    expected = sorted((f"d{i}", 7, n) for i in range(5) for n in range(FILES * EACH // 5))
    assert fleet.numbers() == fleet.numbers("measurements", "true") == expected


def take_batch(spark, fleet, telemetry, number, *seqs):
    from inflight_tools.fleet.spark.batch import take

    lines = [(bytearray(telemetry("attic", seq), "utf-8"),) for seq in seqs]
    take(spark.createDataFrame(lines, "value BINARY"), number, fleet.root, "inflight")


@pytest.fixture(scope="module")
def begun_once(spark, common_fleet, telemetry):
    """The tables with batch 0, of numbers 0 and 1."""
    common_fleet.tables.create()
    take_batch(spark, common_fleet, telemetry, 0, 0, 1)
    return common_fleet.root


@pytest.fixture
def batch(spark, fleet, begun_once, telemetry):
    """batch(number, *seqs) is a micro-batch as Spark calls it, also again if the driver was killed before it had
    recorded the batch's end. The fleet has a copy of the tables with batch 0."""
    shutil.copytree(begun_once, fleet.root)
    return functools.partial(take_batch, spark, fleet, telemetry)


def expect(fleet, count, deliveries):
    """Numbers 0 to count - 1 are in the tables, once."""
    assert fleet.numbers() == fleet.numbers("measurements", "true") == [("attic", 7, n) for n in range(count)]
    assert fleet.tables.raw.read().count() == deliveries
    (known,) = fleet.tables.ledger.read().collect()
    assert [tuple(found) for found in known["ranges"]] == [(0, count - 1)]
    assert known["repeated"] == deliveries - count
    assert sum(row["count"] for row in fleet.tables.minutes.read().collect()) == count


@pytest.mark.long("INFLIGHT_TOOLS")
def test_a_repeated_batch_is_written_once(fleet, batch):
    for _ in range(2):
        batch(1, 1, 2, 3)
    expect(fleet, 4, 5)


class Killed(BaseException):
    """As if the driver was killed."""


@pytest.fixture
def kill(monkeypatch):
    """kill(commits, work, *args) calls work(*args) until it has committed so many times, and written the next files."""
    from inflight_tools.fleet.spark.tables import Table

    def run(commits, work, *args):
        commit, done = Table.commit, []

        def killed(*args, **more):
            if len(done) == commits:
                raise Killed
            done.append(commit(*args, **more))

        with monkeypatch.context() as changed, pytest.raises(Killed):
            changed.setattr(Table, "commit", killed)
            work(*args)

    return run


def folders(fleet):
    names = "raw", "measurements", "minutes", "ledger"
    return {name: len(list(fleet.root.glob(f"{name}/parts/*"))) for name in names}


def test_a_batch_that_was_killed_between_two_commits_is_completed(fleet, batch, kill):
    """It has four commits: raw, measurements, minutes, ledger."""
    kill(1, batch, 1, 1, 2, 3)
    kill(2, batch, 1, 1, 2, 3)
    assert fleet.tables.merge() == 0  # it leaves the batch alone
    batch(1, 1, 2, 3)
    expect(fleet, 4, 5)
    before = folders(fleet)
    fleet.tables.vacuum(0)
    assert (before, folders(fleet)) == (
        {"raw": 2, "measurements": 3, "minutes": 2, "ledger": 3},
        {"raw": 2, "measurements": 2, "minutes": 2, "ledger": 2},
    )
    expect(fleet, 4, 5)


def test_a_merge_that_was_killed_changes_nothing(fleet, batch, kill):
    batch(1, 1, 2)
    kill(0, fleet.tables.raw.merge, 1)
    expect(fleet, 3, 4)
    assert fleet.tables.merge() >= 6
    expect(fleet, 3, 4)
    assert fleet.tables.merge() == 0


@pytest.mark.long("INFLIGHT_TOOLS")
def test_of_two_merges_at_once_one_is_refused(fleet, batch, monkeypatch):
    from deltalake.exceptions import CommitFailedError

    from inflight_tools.fleet.spark.tables import Table

    batch(1, 1, 2)
    commit = Table.commit

    def other_first(table, *args, **more):
        monkeypatch.undo()
        table.merge(1)
        return commit(table, *args, **more)

    monkeypatch.setattr(Table, "commit", other_first)
    with pytest.raises(CommitFailedError, match="Concurrent"):
        fleet.tables.raw.merge(1)
    expect(fleet, 3, 4)


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.parametrize("commits", [0, 2, 3])
def test_a_batch_of_two_drivers_at_once_is_written_once(fleet, batch, monkeypatch, commits):
    """In object storage no lock keeps them apart. One has made so many commits, and written the files of the next one,
    when the other one writes the whole batch and the next one."""
    from deltalake.exceptions import CommitFailedError

    from inflight_tools.fleet.spark.tables import Table

    commit, done = Table.commit, []

    def overtaken(*args, **more):
        if len(done) == commits:
            monkeypatch.undo()
            batch(1, 1, 2, 3)
            batch(2, 3, 4)
        done.append(commit(*args, **more))

    monkeypatch.setattr(Table, "commit", overtaken)
    with pytest.raises(CommitFailedError, match="oncurrent"):
        batch(1, 1, 2, 3)
    expect(fleet, 5, 7)
