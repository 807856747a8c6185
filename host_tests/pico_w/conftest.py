"""Tests on an emulated Pico W. Most take minutes, and run by `make test-pico-w` only."""

from collections import Counter

import pytest

from dev.demo import mosquitto
from dev.pico_w import image
from host_tests.absent import absent

REASON = image.unavailable() or mosquitto.unavailable()


def pytest_pycollect_makemodule(module_path, parent):
    return absent(parent, module_path, REASON)


@pytest.fixture
def broker(tmp_path):
    with mosquitto.Mosquitto(tmp_path / "broker") as running:
        yield running


@pytest.fixture(scope="session")
def bench(tmp_path_factory):
    """The board of which all boards of this session are copies, and the brokers in its configurations."""
    from host_tests.pico_w.bench import Bench, Brokers  # which need the emulator

    with Brokers(tmp_path_factory.mktemp("brokers")) as brokers:
        yield Bench(brokers)


def pytest_terminal_summary(terminalreporter):
    """Prints the sums of all power cuts, of all workers."""
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
