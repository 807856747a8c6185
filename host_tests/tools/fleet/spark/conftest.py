"""Fixtures: Spark, and a fleet whose landing files a test writes. All tests share one Spark, which starts slowly."""

import importlib.util
import os
import sys

import pytest

from host_tests.absent import absent
from host_tests.tools.fleet import without_spark
from inflight_tools.fleet.spark.java import java_home
from tools.demo.downstream import QUICK_JAVA

WORKER = "first"
REASON = ""
if not all(map(importlib.util.find_spec, ("pyspark", "deltalake"))):
    REASON = "Spark or Delta Lake is not installed: run `make setup-pipeline`"
elif not java_home():
    REASON = "there is no Java 17 or newer: run `make setup-pipeline`"


def pytest_pycollect_makemodule(module_path, parent):
    return absent(parent, module_path, REASON)


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


@pytest.fixture(scope="session")
def telemetry():
    """telemetry(device, seq, ...) is a delivery of one pack with one temperature."""
    return without_spark.telemetry


@pytest.fixture(scope="session")
def message():
    """message(topic, body, ...) is any delivery."""
    return without_spark.delivery


@pytest.fixture(scope="session")
def health():
    return without_spark.health
