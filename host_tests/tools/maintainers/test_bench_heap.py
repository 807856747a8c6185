"""`make bench-heap`: what the application holds of a board's heap does not creep up unnoticed."""

import pytest

from tools.bench.application import heap
from tools.demo.sensors import best_runtime
from tools.peers.mosquitto import unavailable

WORKER = "bench"
# Bytes and new names, the least of a few runs: single ones of one tree differ by 160 bytes.
# The table of names takes 4,480 bytes more from the 631st on. What messages need is there with the first subscription.
MOST = {"rp2040": (67_900, 586), "esp32": (66_500, 597)}

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")


def _available():
    if reason := unavailable():
        pytest.skip(reason)
    if (found := best_runtime()).name != "micropython-x86":
        pytest.skip(f"objects have another size on {found.name}")


@pytest.mark.parametrize("board", MOST)
def test_the_application_holds_so_much(board, mosquitto, tmp_path):
    _available()
    application = heap.Application(board, mosquitto().port, tmp_path)
    found = min(heap.held(application, fields={}) for _ in range(3))
    assert all(own <= most for own, most in zip(found, MOST[board], strict=True)), found


def test_modules_that_stay_are_listed(tmp_path):
    _available()
    found = heap.modules_of("rp2040", tmp_path)
    assert {"inflight.core", "node", "app", "board"} <= {*found} and min(found.values()) > 0
