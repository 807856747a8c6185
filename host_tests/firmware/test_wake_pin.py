"""A sensor that sleeps and that a pin wakes, with a broker: the event, and the next sleep."""

import sys
from unittest.mock import Mock

import pytest

from codes import IDLE
from host_tests.firmware.conftest import Board, gathered
from host_tests.firmware.test_sleeping_app import SLEEP_MS, Sleeper
from inflight.compat import ticks_add, ticks_ms
from nor import PowerCut

PIN = 33
WIFI = {"wifi_ssid": "net", "wifi_key": "the-wifi-key"}


class WakePin:
    """The module of a board: the level of its pin, and what ends the next sleep."""

    def __init__(self):
        self.now = 0
        self.by_pin = False
        self.armed = None

    def check(self, number):
        if number != PIN:
            raise ValueError(f"pin {number} cannot wake this board")

    def woke(self):
        return self.by_pin

    def level(self, number):
        assert number == PIN
        return self.now

    def arm(self, number, level):
        assert number == PIN
        self.armed = level


@pytest.fixture
def pin(monkeypatch):
    pin = WakePin()
    monkeypatch.setitem(sys.modules, "wake_pin", pin)
    monkeypatch.delitem(sys.modules, "wake_pin_app", raising=False)  # that has this one
    yield pin
    sys.modules.pop("wake_pin_app", None)


@pytest.fixture
def wake(make, pin):
    """wake(port, by_pin, ...) is one wake of a device, by the pin or by the time."""
    sleeper = Sleeper(make)

    def wake(port, by_pin=False, **fields):
        pin.by_pin = by_pin
        pin.armed = None
        if sleeper.board:
            sleeper.board.slept.clear()
        return sleeper(port, **{"wake_on_pin": PIN, "report_every": 10, **fields})

    wake.device = sleeper
    return wake


def statuses(published):
    return [(body["state"], body.get("wake")) for body in published("status")]


def events(broker):
    return [values["wake"] for _, values in gathered(broker).values()]


def test_a_wake_by_the_pin_is_a_reading_and_reports_at_once(wake, pin, broker, published):
    """Others wait for their report."""
    wake(broker.port)
    wake(broker.port)
    assert events(broker) == [False]
    wake(broker.port, True)
    assert events(broker) == [False, False, True]
    assert statuses(published) == [("online", None), ("asleep", None), ("asleep", "pin")]
    wake(broker.port)
    assert len(events(broker)) == 3


def test_a_power_cut_before_the_radio_is_on_leaves_the_event_in_the_journal(wake, pin, broker, monkeypatch):
    wake(broker.port)
    board = wake.device.board
    board.wifi = IDLE

    for name in ("status", "join", "network", "setup"):
        monkeypatch.setattr(board, name, Mock(side_effect=PowerCut))
    with pytest.raises(PowerCut):
        wake(broker.port, True, **WIFI)
    assert len(broker.connections) == 1
    wake.device.board = None  # its memory is gone
    wake(broker.port)
    assert events(broker) == [False, True, False]


def test_the_sleep_ends_when_the_pin_has_another_level_than_was_read(wake, pin, broker, monkeypatch):
    """Also if it has changed since."""
    for level in (0, 1):
        pin.now = level
        wake(broker.port)
        assert pin.armed == (not level)
    pin.now = 0

    def opens(board):
        pin.now = 1
        yield "door", None, False

    monkeypatch.setattr(Board, "sensors", opens)
    wake(broker.port)
    assert pin.armed == 1


def test_a_wake_by_the_pin_lasts_for_ten_seconds_with_the_radio_off(wake, pin, broker):
    """So a noisy pin neither fills the journal nor wears the flash. The next wake comes when it is due."""
    wake(broker.port)
    board = wake.device.board
    assert board.slept == []
    off = board.switched_off
    left = wake(broker.port, True)
    ((pause, deep),) = board.slept
    assert 8_000 < pause <= 10_000 and not deep and board.switched_off == off + 1
    assert SLEEP_MS - 12_000 < left <= SLEEP_MS - pause and pin.armed is not None


def test_no_pause_after_a_long_wake_or_before_the_next_one(wake, pin, broker):
    """Nor before a restart."""
    wake(broker.port)
    wake.device.board.slept.clear()
    pin.by_pin = True
    wake.device(broker.port, wake_on_pin=PIN, began=ticks_add(ticks_ms(), -20_000))
    assert wake.device.board.slept == [] and pin.armed is not None
    left = wake(broker.port, True, sleep_ms=5_000, awake_ms=4_000)
    assert 0 < left <= 5_000 and wake.device.board.slept == [] and pin.armed is None
    broker.give("inflight/dev/command/reboot", b"", 2)
    while wake(broker.port, True):
        pass
    assert pin.armed is None and wake.device.board.slept == []


def test_a_pin_that_cannot_wake_the_board_is_in_health(wake, pin, broker, published):
    """The device sleeps until the time is over."""
    assert 0 < wake(broker.port, wake_on_pin=5) <= SLEEP_MS
    assert published("health")[-1]["errors"] == {"wake_on_pin": "ValueError: pin 5 cannot wake this board"}
    assert pin.armed is None and events(broker) == [False]
