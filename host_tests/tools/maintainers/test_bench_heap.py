"""`make bench-heap`: what the application holds of a board's heap does not creep up unnoticed."""

import pytest

from tools.bench import heap_of_application
from tools.bench.application import heap
from tools.demo.sensors import best_runtime
from tools.peers.mosquitto import unavailable

WORKER = "bench"
# Bytes and new names. Of one tree 62,848 to 63,008 bytes were measured on an ESP32, the most on a busy machine. The
# table of names takes 4,480 bytes more from the 631st name on.
MOST = {"rp2040": (69_100, 603), "esp32": (63_100, 600)}

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")


def _available():
    if reason := unavailable():
        pytest.skip(reason)
    if (found := best_runtime()).name != "micropython-x86":
        pytest.skip(f"objects have another size on {found.name}")


@pytest.mark.parametrize("board", MOST)
def test_the_application_holds_so_much(board, mosquitto, tmp_path):
    _available()
    found = heap.held(heap.Application(board, mosquitto().port, tmp_path), 2, fields={})
    assert all(own <= most for own, most in zip(found, MOST[board], strict=True)), found


def test_modules_that_stay_are_listed(tmp_path):
    _available()
    found = heap.modules_of("rp2040", tmp_path)
    assert {"inflight.core", "node", "app", "board"} <= {*found} and min(found.values()) > 0


def test_an_application_that_ends_is_an_error(mosquitto, tmp_path):
    """Its last lines tell why."""
    _available()
    with pytest.raises(heap.Failed, match="host"):
        list(heap.Application("rp2040", mosquitto().port, tmp_path).run({"host": None, "qos": 7}))


def test_the_tables_have_a_column_for_each_board():
    rows = heap_of_application.rows({board: {heap.BASE: (60_000, 500), "MQTT 5": (8_000, 118)} for board in MOST})
    assert rows[1:] == [[heap.BASE, *["60,000", "500"] * 2], ["MQTT 5", *["+8,000", "+118"] * 2]]
