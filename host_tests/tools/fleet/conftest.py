"""Fixtures: tables that are written without Spark, commands. Tests whose packages are not installed are skipped."""

import functools
import importlib.util

import pytest

from host_tests.absent import absent
from host_tests.tools import command
from inflight_tools.fleet.spark.java import java_home

# Of a folder: what its tests need.
NEEDS = dict.fromkeys(("query", "where", "transfer"), ("deltalake",))
NEEDS |= {"console": ("deltalake", "prometheus_client"), "monitoring": ("prometheus_client",)}
NEEDS["spark"] = ("deltalake", "pyspark")

java = functools.cache(java_home)  # it starts one to learn its version


def pytest_pycollect_makemodule(module_path, parent):
    folder = module_path.parent.name
    missing = [f"{name} is not installed" for name in NEEDS.get(folder, ()) if not importlib.util.find_spec(name)]
    if folder == "spark" and not missing and not java():
        missing = ["there is no Java 17 or newer"]
    return absent(parent, module_path, f"{missing[0]}: run `make setup-pipeline`" if missing else "")


@pytest.fixture
def run(tmp_path):
    """run(command, ...) returns (exit status, standard output, standard error)."""
    return functools.partial(command.fleet, tmp_path)


@pytest.fixture
def tables(tmp_path):
    from host_tests.tools.fleet.tables import Tables

    return Tables(tmp_path / "tables")


@pytest.fixture
def fleet(tmp_path):
    from host_tests.tools.fleet.without_spark import Fleet

    return Fleet(tmp_path)


@pytest.fixture(scope="module")
def common_fleet(tmp_path_factory):
    """One for all tests of a file. Each test has devices of its own."""
    from host_tests.tools.fleet.without_spark import Fleet

    return Fleet(tmp_path_factory.mktemp("fleet"))
