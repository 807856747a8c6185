"""Tests whose packages are not installed are skipped."""

import importlib.util

import pytest

from host_tests.absent import absent
from inflight_tools.fleet.spark.java import java_home
from tools.peers import chromium

# Of a folder: what its tests need.
NEEDS = dict.fromkeys(("query", "where", "transfer"), ("deltalake",))
NEEDS |= {"console": ("deltalake", "prometheus_client"), "monitoring": ("prometheus_client",)}
NEEDS["spark"] = ("deltalake", "pyspark")


def pytest_pycollect_makemodule(module_path, parent):
    folder = module_path.parent.name
    missing = [f"{name} is not installed" for name in NEEDS.get(folder, ()) if not importlib.util.find_spec(name)]
    if folder == "spark" and not missing and not java_home():
        missing = ["there is no Java 17 or newer"]
    return absent(parent, module_path, f"{missing[0]}: run `make setup-pipeline`" if missing else "")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium.Chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running
