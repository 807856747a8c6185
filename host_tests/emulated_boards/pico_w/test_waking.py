"""How long a wake takes; `make figures-pico-w` prints a whole table."""

import pytest

from dev.pico_w import sensor, waking
from inflight_tools.boards.bundle import files

pytestmark = [pytest.mark.timeout(1800), pytest.mark.long("INFLIGHT_PICO_W")]


def test_readings_are_in_flash_before_the_radio_is_on(record_property):
    readings, acknowledged, parts = waking.wake(files(sensor.BOARD))
    record_property("ms until readings are in flash, until they are acknowledged", (readings, acknowledged))
    # The device counts from the start of its interpreter, and to the next millisecond.
    begun = parts["read"] + parts["journal"]
    assert readings < acknowledged
    assert parts["total"] >= begun + parts["wifi"] + parts["connect"]
    assert acknowledged - readings > parts["wifi"]
