"""Fixtures: Spark, and a fleet whose landing files a test writes. All tests share one Spark, which starts slowly."""

import contextlib
import importlib.util
import json
import os
import sys

import pytest

from host_tests.absent import absent
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


class Fleet:
    """A fleet in `folder`. The test writes its landing files. as_uri: the pipeline gets a URI of the tables, as in
    object storage, where Hadoop and delta-rs write all files."""

    def __init__(self, spark, folder, as_uri=False):
        from inflight_tools.fleet.spark.batch import Tables

        self._spark = spark
        self.landing = folder / "landing"
        self.root = folder / "tables"
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

    def numbers(self, table="raw", where="first AND seq IS NOT NULL"):
        """Sorted (device, epoch, seq) in a table."""
        rows = getattr(self.tables, table).read().where(where).select("device", "epoch", "seq").collect()
        return sorted(tuple(row) for row in rows)

    def files(self, table):
        """The number of a table's files."""
        from deltalake import DeltaTable

        return len(DeltaTable(self.root / table).file_uris())

    def problems(self):
        return sorted(row["reason"] for row in self.tables.dead_letters.read().collect())

    def facts(self, **how):
        from inflight_tools.fleet.query.facts import gather

        return gather(self.root, "inflight", **{"grace_s": 0, **how})

    @contextlib.contextmanager
    def database(self, *marks, until=0):
        """A Database with the views, by a Proof."""
        from inflight_tools.fleet.proof import Proof
        from inflight_tools.fleet.query import views
        from inflight_tools.fleet.query.database import Database

        with Database(self.root) as database:
            views.define(database, Proof(marks, until), until)
            yield database


@pytest.fixture
def fleet(spark, tmp_path):
    return Fleet(spark, tmp_path)


@pytest.fixture(scope="module")
def common_fleet(spark, tmp_path_factory):
    """One for all tests of a file, because each batch takes time. Each test has devices of its own."""
    return Fleet(spark, tmp_path_factory.mktemp("fleet"))


AT = 1_760_000_000_000  # ms: when the first message of a test is received


def delivery(topic, body, at=AT, **fields):
    """A line of a landing file."""
    body = body if isinstance(body, str) else json.dumps(body)
    whole = {"at": at, "by": "c", "topic": f"inflight/{topic}", "qos": 1, "dup": False, "retain": False, "text": body}
    return json.dumps(whole | fields) + "\n"


@pytest.fixture(scope="session")
def telemetry():
    """telemetry(device, seq, ...) is a delivery of one pack with one temperature."""

    def make(device, seq, value=20.0, epoch=7, at=AT, bt=None, **fields):
        first = {"bn": f"urn:dev:mac:{device}:", "bt": at / 1000 if bt is None else bt, "seq": seq, "epoch": epoch}
        body = [first | {"n": "temperature", "u": "Cel", "v": value}]
        return delivery(f"{device}/telemetry", body, at, **fields)

    return make


@pytest.fixture(scope="session")
def message():
    """message(topic, body, ...) is any delivery."""
    return delivery


@pytest.fixture(scope="session")
def health():
    def make(device, seq, up=60, accepted=1, reset="power-on", epoch=7, at=AT, **fields):
        journal = {"live": 1, "used": 500, "limit": 4000, "erases": 3, "damaged": 0}
        body = {
            "seq": seq,
            "epoch": epoch,
            "up": up,
            "heap": 100_000,
            "journal": journal,
            "reset": reset,
            "outbox_full": 0,
        }
        body |= {"counters": {"accepted": accepted, "resent": 2, "connects": 1, "outages": 1}, "firmware": "0.1.0"}
        return delivery(f"{device}/health", body | fields, at)

    return make
