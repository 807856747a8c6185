"""Fixtures: Spark, and a fleet whose landing files a test writes. All tests share one Spark, which starts slowly."""

import os
import sys

import pytest

from host_tests.processes import Killed
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


@pytest.fixture
def fleet(spark, tmp_path):
    from .with_spark import Fleet

    return Fleet(spark, tmp_path)


@pytest.fixture(scope="module")
def common_fleet(spark, tmp_path_factory):
    """One for all tests of a file, because each batch takes time. Each test has devices of its own."""
    from .with_spark import Fleet

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
