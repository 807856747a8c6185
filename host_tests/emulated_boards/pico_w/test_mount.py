"""A journal of 64 KiB on a Pico W is mounted soon, in emulated time; `make figures-pico-w` prints the table."""

import pytest

from tools.emulators.pico_w import mounting

pytestmark = [pytest.mark.long("INFLIGHT_PICO_W"), pytest.mark.timeout(3600)]


def test_full_journal_is_mounted_within_a_second():
    for what, ms in mounting.times():
        assert ms <= 1000, what
