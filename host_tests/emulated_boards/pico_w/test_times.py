"""What takes how long, in emulated time; `make figures-pico-w` prints the tables."""

import pytest

from tools.emulators.pico_w import waking

pytestmark = [pytest.mark.long("INFLIGHT_PICO_W"), pytest.mark.timeout(3600)]


def test_readings_are_in_flash_and_acknowledged_soon(record_property):
    ms = waking.deployed()
    record_property("ms of a wake", {event: round(ms[event]) for event in waking.EVENTS})
    assert ms[waking.READINGS] <= 1100
    assert ms[waking.ACKNOWLEDGED] <= 2200
    assert ms[waking.ASLEEP] <= 2900
