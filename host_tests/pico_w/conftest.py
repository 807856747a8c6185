"""Tests on an emulated Pico W. Most take minutes, and run by `make test-pico-w` only."""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from fleet import mosquitto
from pico_w import image

sys.path.insert(1, str(Path(__file__).parent))

ALL = "INFLIGHT_PICO_W"  # in the environment, with any value: the long tests as well


def pytest_configure(config):
    config.addinivalue_line("markers", "long: a test on the emulated Pico W that takes minutes")


def pytest_collection_modifyitems(config, items):
    """Deselected, not skipped: nothing is missing here, and nobody needs to read of each."""
    if os.environ.get(ALL):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


REASON = image.unavailable() or mosquitto.unavailable()


class Impossible(pytest.Module):
    """A file of tests that cannot even be imported here."""

    def collect(self):
        pytest.skip(REASON, allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    return Impossible.from_parent(parent, path=module_path) if REASON else None


@pytest.fixture
def broker(tmp_path):
    with mosquitto.Mosquitto(tmp_path / "broker") as running:
        yield running


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    """The board that all copies of this session are made of, and the brokers that its configurations name."""
    from bench import Bench, Brokers  # which need the emulator

    with Brokers(tmp_path_factory.mktemp("brokers")) as brokers:
        yield Bench(brokers)


def pytest_terminal_summary(terminalreporter):
    """How much the power cuts proved: of all workers together."""
    cuts, messages = Counter(), Counter()
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        told = dict(report.user_properties)
        if report.when == "call" and "power cuts" in told:
            cuts.update(told["power cuts"])
            messages.update(told["messages"])
    if cuts:
        terminalreporter.section("power cuts on the emulated Pico W")
        terminalreporter.write_line(f"{sum(cuts.values())} cuts: " + ", ".join(f"{n} {how}" for how, n in cuts.items()))
        terminalreporter.write_line(", ".join(f"{n} {what}" for what, n in messages.items()))
