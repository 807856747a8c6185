"""The arithmetic of a battery."""

import pytest

from tools.emulators.pico_w import energy
from tools.emulators.pico_w.energy import Cost

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")


def test_the_sleep_counts_where_wakes_are_seldom():
    wake = Cost(2_000, 1_000)
    assert wake.processor_mj == pytest.approx(energy.PROCESSOR_MA * 3.3 * 3)
    assert wake.radio_mj == pytest.approx(energy.RADIO_MA * 3.3 * 2)
    asleep = 1500 * 3.0 * 0.8 * 0.85 / (energy.SLEEP_MA * 3.3) / 24
    assert wake.days("CR123A", 10_000) == pytest.approx(asleep, rel=0.01)
    for battery in energy.BATTERIES:
        days = [wake.days(battery, minutes) for minutes in energy.MINUTES]
        assert days == sorted(days) and days[0] < asleep


def test_a_shorter_wake_spares_what_it_does_not_take():
    long, short = Cost(3_000, 2_000), Cost(2_000, 2_000)
    assert long.processor_mj - short.processor_mj == pytest.approx(energy.PROCESSOR_MA * 3.3 * 1)
    assert short.days("18650", 1) > long.days("18650", 1)
    assert len(dict(short.figures())) == 2 + 3 * len(energy.MINUTES)
