"""The driver is killed at random times: no row is lost, none is stored twice."""

import contextlib
import functools
import os
import random
import signal
import tempfile
import time

import pytest
from deltalake.exceptions import CommitFailedError

from host_tests.processes import INFLIGHT
from host_tests.tools.fleet.without_spark import AT, delivery, telemetry
from inflight_tools.fleet.spark.batch import take
from tools.peers.daemon import Program

FILES, EACH = 12, 50
KILLS = 6


class Driver(Program):
    """`inflight fleet tables` on the folder, as a process. At the end it is killed, with its child processes."""

    group = True

    def __init__(self, folder, *more):
        words = ("fleet", "tables", "--data", folder, "--master", "local[2]", "--partitions", "2", *more)
        self._log = tempfile.NamedTemporaryFile()  # noqa: SIM115  # not in the folder, whose disk may be full
        super().__init__(self._log.name, (*INFLIGHT, *words))

    def __enter__(self):
        self.on()
        return self

    def __exit__(self, *_):
        self.off()

    @contextlib.contextmanager
    def stopped(self):
        """A context in which it does nothing, as if the machine was slow."""
        os.killpg(self.process.pid, signal.SIGSTOP)
        yield
        os.killpg(self.process.pid, signal.SIGCONT)


@pytest.mark.long("INFLIGHT_PIPELINE")
@pytest.mark.timeout(1800)
def test_a_driver_is_killed_repeatedly(fleet, tmp_path):
    """Each driver is killed at a random time after it has begun another batch."""
    dice = random.Random(7)
    for n in range(FILES):
        fleet.land(*[telemetry(f"d{i % 5}", (n * EACH + i) // 5) for i in range(EACH)], telemetry("d0", n))
    for _ in range(KILLS):
        begun = len(list(tmp_path.glob("tables/raw/parts/*")))
        with Driver(tmp_path, "--files", "1", "--every", "0.1") as driver:
            driver.wait(lambda begun=begun: len(list(tmp_path.glob("tables/raw/parts/*"))) > begun)
            time.sleep(dice.uniform(0, 1.5))  # a random time, not a synchronisation
    with Driver(tmp_path, "--once") as driver:
        assert driver.end() == 0, driver.log()
    expected = sorted((f"d{i}", 7, n) for i in range(5) for n in range(FILES * EACH // 5))
    assert fleet.numbers() == fleet.numbers("measurements", "true") == expected
    assert fleet.count("raw") == FILES * (EACH + 1)
    assert fleet.count("ledger", "sum(repeated)") == FILES
    assert fleet.count("minutes", "sum(count)") == len(expected)


UNDATED = delivery("attic/telemetry", [{"bt": 0, "up": 1.0, "seq": 10, "epoch": 7, "n": "t", "v": 1}])
# 10 s before AT.
DATING = delivery("attic/telemetry", [{"bt": AT / 1000, "boot": 10, "up": 11.0, "seq": 11, "epoch": 7}])


def take_batch(spark, fleet, number, *lines):
    lines = [telemetry("attic", line) if isinstance(line, int) else line for line in lines]
    rows = spark.createDataFrame([(bytearray(line, "utf-8"),) for line in lines], "value BINARY")
    take(rows, number, fleet.root, "inflight")


@pytest.fixture(scope="module")
def begun_once(spark, common_fleet):
    """The tables with batch 0, of numbers 0, 1 and 10; the last one has no time yet."""
    common_fleet.tables.create()
    take_batch(spark, common_fleet, 0, 0, 1, UNDATED)
    return common_fleet


@pytest.fixture
def batch(spark, fleet, begun_once):
    """batch(number, line or number of a message, ...) is a micro-batch as Spark calls it, also again if the driver was
    killed before it had recorded the batch's end. The fleet has a copy of the tables with batch 0."""
    return functools.partial(take_batch, spark, fleet.begin_as(begun_once))


def expect(fleet, count, deliveries, dated=False):
    """Numbers 0 to count - 1, and 10, are in the tables, once."""
    numbers = [("attic", 7, n) for n in (*range(count), 10)]
    assert fleet.numbers("measurements", "true") == numbers
    assert fleet.numbers() == numbers + [("attic", 7, 11)] * dated
    assert fleet.count("raw") == deliveries
    arrived = len(numbers) + dated
    assert fleet.count("(SELECT unnest(ranges) AS r FROM ledger)", "sum(r.hi - r.lo + 1)") == arrived
    assert fleet.count("ledger", "sum(repeated)") == deliveries - arrived
    assert fleet.count("minutes", "sum(count)") == len(numbers)
    (last,) = fleet.rows("FROM measurements WHERE seq = 10")
    made = last["time"].timestamp() - AT / 1000
    assert (last["clock"], made) == (("uptime", -10) if dated else ("receipt", 0))


def test_a_batch_that_was_killed_between_two_commits_is_completed(fleet, batch, kill):
    """Its commits: measurements and minutes that it dates, clocks, raw, measurements, minutes, ledger. The next one is
    written, too, when it is killed."""
    lines = 1, 1, 2, 3, DATING
    for commits in (1, 2, 3):  # of those that are left
        assert kill(commits, batch, 1, *lines)
    assert fleet.numbers() == [("attic", 7, n) for n in (0, 1, 10)]  # the others are not of a whole batch
    fleet.tables.merge()  # it leaves the batch alone
    batch(1, *lines)
    batch(1, *lines)
    expect(fleet, 4, 8, dated=True)
    before = len(list(fleet.root.glob("ledger/parts/*")))
    fleet.tables.vacuum(0)
    assert len(list(fleet.root.glob("ledger/parts/*"))) < before
    expect(fleet, 4, 8, dated=True)


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.parametrize("commits", [0, 2, 3])
def test_a_batch_of_two_drivers_at_once_is_written_once(fleet, batch, before_commits, commits):
    """In object storage no lock keeps them apart. The other one comes when this one has written the files of its next
    commit, which is refused."""

    def other(number):
        if number == commits:
            batch(1, 1, 2, 3)
            batch(2, 3, 4)

    with pytest.raises(CommitFailedError, match="oncurrent"):
        before_commits(other, batch, 1, 1, 2, 3)
    expect(fleet, 5, 8)
