"""Tests on emulated boards. Most take minutes, and run by `make test-pico-w` and `make test-esp32` only."""

from collections import Counter

import pytest

from dev.demo import mosquitto

LONG = {"pico_w": "INFLIGHT_PICO_W", "esp32": "INFLIGHT_ESP32", "esp32_pinned": "INFLIGHT_ESP32"}


def board_param(name):
    """The parameter `bench` for the board `name`."""
    return pytest.param(name, marks=pytest.mark.long(LONG[name]))


def pytest_generate_tests(metafunc):
    """A test that takes `bench` is of each board; it may name others than these two."""
    if "bench" in metafunc.fixturenames:
        asked = metafunc.definition.get_closest_marker("boards")
        names = asked.args if asked else ("pico_w", "esp32")
        metafunc.parametrize("bench", [board_param(name) for name in names], indirect=True, scope="session")


def _pico_w(folder):
    from dev.pico_w import image

    if reason := image.unavailable():
        pytest.skip(reason)
    from host_tests.emulated_boards.pico_w_bench import Bench  # which needs the emulator

    return Bench(folder)


def _esp32(folder, **how):
    from dev.esp32 import emulator

    if reason := emulator.unavailable():
        pytest.skip(reason)
    from host_tests.emulated_boards.esp32_bench import Bench

    return Bench(folder, **how)


_BENCHES = {"pico_w": _pico_w, "esp32": _esp32, "esp32_pinned": lambda folder: _esp32(folder, pinned=True)}


@pytest.fixture(scope="session")
def bench(request, tmp_path_factory):
    """A board that each test of this session starts anew, and the brokers that its configurations name."""
    if reason := mosquitto.unavailable():
        pytest.skip(reason)
    made = _BENCHES[request.param](tmp_path_factory.mktemp("brokers"))
    with made.brokers:
        yield made


@pytest.fixture
def broker(tmp_path):
    if reason := mosquitto.unavailable():
        pytest.skip(reason)
    with mosquitto.Mosquitto(tmp_path / "broker") as running:
        yield running


def pytest_configure(config):
    config.addinivalue_line("markers", "boards(names): on which emulated boards the test runs")


def pytest_terminal_summary(terminalreporter):
    """How much the power cuts proved: of all workers together."""
    cuts, messages = Counter(), Counter()
    for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed"):
        told = dict(report.user_properties)
        if report.when == "call" and "power cuts" in told:
            cuts.update(told["power cuts"])
            messages.update(told["messages"])
    if cuts:
        terminalreporter.section("power cuts on emulated boards")
        terminalreporter.write_line(f"{sum(cuts.values())} cuts: " + ", ".join(f"{n} {how}" for how, n in cuts.items()))
        terminalreporter.write_line(", ".join(f"{n} {what}" for what, n in messages.items()))
