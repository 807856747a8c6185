"""Tests on emulated boards. Most take minutes, and run by `make test-pico-w` and `make test-esp32` only."""

import importlib
from collections import Counter

import pytest

from host_tests.emulated_boards.tasks import Brokers
from tools.peers import mosquitto

_LONG = {"pico_w": "INFLIGHT_PICO_W", "esp32": "INFLIGHT_ESP32", "esp32_pinned": "INFLIGHT_ESP32"}
_HERE = "host_tests/emulated_boards/"


def pytest_generate_tests(metafunc):
    """A test that takes `bench` or `emulated` is of each board, or of those that its mark `boards` names."""
    for fixture in {"bench", "emulated"}.intersection(metafunc.fixturenames):
        asked = metafunc.definition.get_closest_marker("boards")
        names = asked.args if asked else ("pico_w", "esp32")
        boards = [pytest.param(name, marks=pytest.mark.long(_LONG[name])) for name in names]
        metafunc.parametrize(fixture, boards, indirect=True, scope="session")


def _module(name):
    """The board's half of these tests: pico_w_bench or esp32_bench."""
    if name == "pico_w":
        from tools.emulators.pico_w import image as emulator
    else:
        from tools.emulators.esp32 import emulator
    if reason := emulator.unavailable() or mosquitto.unavailable():
        pytest.skip(reason)
    return importlib.import_module(f"host_tests.emulated_boards.{name}_bench")


@pytest.fixture(scope="session")
def emulated(request):
    """What a board is made of, as a module; here none has been started yet."""
    return _module(request.param)


@pytest.fixture(scope="session")
def bench(request, tmp_path_factory):
    """A board that each test of this session starts anew, and the brokers that its configurations name."""
    name, pinned, _ = request.param.partition("_pinned")
    module = _module(name)
    with Brokers(tmp_path_factory.mktemp("brokers"), module.SENSOR) as brokers:
        yield module.Bench(brokers, pinned=True) if pinned else module.Bench(brokers)


def pytest_configure(config):
    config.addinivalue_line("markers", "boards(names): on which emulated boards the test runs")


def pytest_terminal_summary(terminalreporter):
    """What the tests measured, and how much the power cuts proved: of all workers together."""
    cuts, messages = Counter(), Counter()
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        told = dict(report.user_properties)
        if report.when != "call" or not report.nodeid.startswith(_HERE):
            continue
        cuts.update(told.pop("power cuts", {}))
        messages.update(told.pop("messages", {}))
        for what, figure in told.items():
            terminalreporter.write_line(f"{report.nodeid.removeprefix(_HERE)}: {what}: {figure}")
    if cuts:
        terminalreporter.section("power cuts on emulated boards")
        terminalreporter.write_line(f"{sum(cuts.values())} cuts: " + ", ".join(f"{n} {how}" for how, n in cuts.items()))
        terminalreporter.write_line(", ".join(f"{n} {what}" for what, n in messages.items()))
