"""Fixtures: Spark, and a fleet whose landing files a test writes. All tests share one Spark, which starts slowly."""

import os
import shutil
import sys

import pytest

from host_tests.tools.fleet import without_spark
from tools.demo.downstream import QUICK_JAVA

WORKER = "first"


@pytest.fixture(scope="session", autouse=True)
def quick_java():
    """For the processes that tests start as well."""
    os.environ.update(QUICK_JAVA)


@pytest.fixture(scope="session")
def spark(tmp_path_factory, quick_java):
    from inflight_tools.fleet.spark.session import session
    from inflight_tools.fleet.spark.tables import INTERPRETED

    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Interpreted, these tests take half the time, since each query has few rows; tests of the command line compile. The
    # last option: a name with both "." and "_".
    options = {"spark.driver.memory": "1g", **INTERPRETED, "spark.executorEnv.OF_TESTS": "1"}
    running = session("tests", folder, "local[2]", partitions=2, options=options)
    yield running
    running.stop()


class Fleet(without_spark.Fleet):
    """A fleet in `folder`. The test writes its landing files. as_uri: the pipeline gets a URI of the tables, as in
    object storage, where Hadoop and delta-rs write all files."""

    def __init__(self, spark, folder, as_uri=False):
        from inflight_tools.fleet.spark.batch import Tables

        super().__init__(folder)
        self._spark = spark
        self.landing.mkdir(parents=True, exist_ok=True)
        self._place = self.root.as_uri() if as_uri else self.root
        self.tables = Tables(spark, self._place)
        self.written = 0

    def land(self, *lines):
        """Writes one landing file."""
        self.written += 1
        hidden = self.landing / f".{self.written:06}"
        hidden.write_bytes(b"".join(line.encode() if isinstance(line, str) else line for line in lines))
        hidden.rename(self.landing / f"{self.written:06}.ndjson")

    def run(self, files=500, new_checkpoint=False):
        """Runs the query once, on the landing files that are present."""
        from inflight_tools.fleet.spark.stream import start

        query = start(
            self._spark, self.landing, self._place, "inflight", once=True, files=files, new_checkpoint=new_checkpoint
        )
        query.awaitTermination()

    def begin_as(self, other):
        """Copies the tables of another fleet. No name of a landing file is used twice."""
        shutil.copytree(other.root, self.root)
        self.written = other.written
        return self

    def files(self, table):
        """The number of a table's files."""
        from deltalake import DeltaTable

        return len(DeltaTable(self.root / table).file_uris())

    def problems(self):
        return sorted(row["reason"] for row in self.rows("FROM dead_letters"))


@pytest.fixture
def fleet(spark, tmp_path):
    return Fleet(spark, tmp_path)


@pytest.fixture(scope="module")
def common_fleet(spark, tmp_path_factory):
    """One for all tests of a file, because each batch takes time. Each test has devices of its own."""
    return Fleet(spark, tmp_path_factory.mktemp("fleet"))


@pytest.fixture
def before_commits(monkeypatch):
    """before_commits(call, work, *args) calls work(*args), and call(number) before each of its commits, which are
    numbered from 0 on: what the call does itself is not counted. Returns how many commits there were."""
    from inflight_tools.fleet.spark.tables import Table

    def run(call, work, *args):
        commit, done = Table.commit, []

        def counted(*args, **more):
            with monkeypatch.context() as plain:
                plain.setattr(Table, "commit", commit)
                call(len(done))
            done.append(commit(*args, **more))

        with monkeypatch.context() as changed:
            changed.setattr(Table, "commit", counted)
            work(*args)
        return len(done)

    return run


class Killed(BaseException):
    """As if the process was killed."""


@pytest.fixture
def kill(before_commits):
    """kill(commits, work, *args) calls work(*args) until it has committed so many times, and written the next files.
    Returns whether it was killed: it may have ended before."""

    def run(commits, work, *args):
        def killed(number):
            if number == commits:
                raise Killed

        try:
            before_commits(killed, work, *args)
        except Killed:
            return True
        return False

    return run
