"""The heap of a Pico W, in bytes; `make figures-pico-w` prints the whole table."""

import pytest

from dev.pico_w.figures import at_the_prompt

pytestmark = [pytest.mark.long("INFLIGHT_PICO_W"), pytest.mark.timeout(600)]


def test_what_the_library_leaves():
    boot, imported = at_the_prompt(compiled=True)
    assert boot > 195_000
    assert boot - imported < 45_000
