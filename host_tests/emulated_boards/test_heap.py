"""What the library costs of a board's heap; `make figures-pico-w` prints a whole table."""

import pytest

pytestmark = pytest.mark.timeout(3600)


def test_what_the_library_leaves(emulated, record_property):
    boot, imported = emulated.library_heap()
    record_property("free heap after boot, after import", (boot, imported))
    assert boot > emulated.BOOT_HEAP
    assert boot - imported < 45_000
