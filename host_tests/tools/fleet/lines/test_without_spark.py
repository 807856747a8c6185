"""The package of lines needs no Spark, and nothing of the command that Spark's executors are not sent."""

import subprocess
import sys

import pytest

pytest.importorskip("pyarrow")

IMPORT_ALL = """
import importlib, pkgutil, sys
sys.modules["pyspark"] = None
from inflight_tools.fleet import lines
for module in pkgutil.walk_packages(lines.__path__, lines.__name__ + "."):
    importlib.import_module(module.name)
print(*sorted(name for name in sys.modules if name.startswith("inflight_tools")))
"""


def test_every_module_is_imported_without_pyspark():
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    package = "inflight_tools.fleet.lines"
    modules = ("gathered", "parse", "properties", "reader", "rows", "senml", "telemetry")
    loaded = ["inflight_tools", "inflight_tools.fleet", package, *(f"{package}.{m}" for m in modules)]
    assert done.stdout.split() == loaded
