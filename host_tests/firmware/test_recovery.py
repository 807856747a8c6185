"""The device comes back by itself, whatever the network does: on virtual time."""

import json
import sys
from types import SimpleNamespace

import pytest

import log
from codes import CONNECTING, IDLE, NO_AP, ONLINE, SOFT
from config import check
from host_tests.clients import no_network
from host_tests.firmware.conftest import Board
from host_tests.firmware.test_outage import READINGS
from inflight import RamFlash
from inflight_tools.boards.images.outage import bridged_s

HOUR_MS = 3_600_000
DAY = 1440  # minutes


class Device:
    """A device that stays awake, on virtual time."""

    def __init__(self, make, clock):
        self._make, self._clock = make, clock
        self._began = clock.now
        self.backoff_ms = 1_000, 60_000
        self.errors = []  # what its client reported

    def start(self, port, **fields):
        hourly = {"interval_ms": HOUR_MS, "health_ms": HOUR_MS}
        fields = {"wifi_ssid": "net", "wifi_key": "the-wifi-key", **hourly, **fields}
        self._make.backoff_ms = self.backoff_ms
        self.app = self._make(port, **fields)
        self.app.client.on_error = self.errors.append
        self.app.client.most_ms = 3000  # hours pass
        return self.app

    @property
    def minutes(self):
        return (self._clock.now - self._began) / 60

    def pass_until(self, minute):
        """The time passes, and the device does nothing."""
        self._clock.now = self._began + 60 * minute

    def run(self, until):
        """Runs until minute `until`, or until it restarts. Returns [(minute, what it did)]."""
        board, did = self.app.board, []
        while self.minutes < until and not board.slept:
            before = board.switched_off
            self.app.step()
            if board.switched_off > before:
                did.append((round(self.minutes), "radio off"))
        return did + [(round(self.minutes), "restart") for sleep in board.slept if sleep == (0, True)]


@pytest.fixture
def device(make, virtual):
    return Device(make, virtual.clock)


def connection_until(minute):
    """A script: the broker accepts the device at once, and cuts the connection at that minute."""

    def script(b):
        end = b.clock.now + 60 * minute
        b.welcome()
        b.grant()
        b.until(lambda: b.clock.now >= end)
        b.cut()

    return script


# --- no connection to the broker ---


@pytest.mark.parametrize("joins", [ONLINE, CONNECTING, NO_AP])
def test_without_a_connection_the_radio_restarts_and_then_the_device(device, nobody, joins):
    """A radio that hangs says that it is online, connects for ever, or finds no access point."""
    app = device.start(nobody)
    app.board.wifi = app.board.joins = joins
    assert device.run(60) == [(5, "radio off"), (10, "radio off"), (15, "restart")]
    assert app.board.joined[-1] == ("net", "the-wifi-key", 0)


def test_a_device_whose_network_somebody_else_manages_restarts_only_for_new_settings(device, nobody):
    """Without wifi_ssid that is the operating system, or boot.py. The next start has the old settings."""
    app = device.start(nobody, wifi_ssid=None, wifi_key=None)
    app.board.wifi = IDLE
    assert device.run(30) == []
    assert device.errors
    device.start(nobody, wifi_ssid=None, wifi_key=None).config.trial = True
    assert device.run(90)[-1] == (45, "restart")


def test_when_the_network_comes_the_client_connects_at_once(device, virtual):
    """Without waiting out a pause that grew before."""
    device.backoff_ms = HOUR_MS, HOUR_MS
    app = device.start(virtual.port)
    with no_network():
        device.run(1)
    assert len(device.errors) == 1
    app.board.wifi = app.board.joins = NO_AP
    device.run(2)
    app.board.wifi = ONLINE
    with virtual.play(connection_until(0)):
        device.run(2.1)
    assert app.client.counters()["connects"] == 1


def test_health_without_a_connection(device, nobody):
    """Once an hour; with Home Assistant, too, whose state has no signal then."""
    app = device.start(nobody, wifi_ssid=None, wifi_key=None, health_ms=60_000, ha=True)
    device.run(70)
    assert [topic for _, _, topic in app.board.log].count("health") == 1


# --- no network at all ---

SETUP = {"setup": {"code": "the-set-up-code"}}
GONE = b"gone" + (3600).to_bytes(2, "little")


def hours(device, port, limit=100, board=None, **fields):
    """Starts again and again, with a network that is `joins` after each attempt; returns the minutes of the restarts,
    up to one for which the set-up page opens, or to minute `limit`."""
    found = []
    while device.minutes < limit:
        app = device.start(port, board=board, **fields)
        board = app.board
        board.wifi = board.joins = NO_AP
        did = device.run(limit)
        found += [minute for minute, what in did if what == "restart"]
        board.slept.clear()
        if "set-up" in log.text:
            break
    return found, board


def test_after_an_hour_without_a_network_the_device_restarts_for_its_set_up(device, nobody, tmp_path):
    """Over the restarts that happen meanwhile, which are no crashes. Without a code it never does."""
    found, board = hours(device, nobody, **SETUP)
    assert found == [15, 30, 45, 60, 61]
    assert board.recall()[:6] == GONE
    record = json.loads((tmp_path / "crash.json").read_text())
    assert (record["count"], record["error"]) == (0, "no network for an hour: the set-up opens")
    board.remember(GONE)
    found, board = hours(device, nobody, device.minutes + 16, board)
    assert len(found) == 1 and "set-up" not in log.text


def test_a_network_without_the_broker_begins_the_hour_anew(device, nobody):
    """Whoever stops a broker does not open a page."""
    app = device.start(nobody, **SETUP)
    app.board.remember(b"gone" + (3590).to_bytes(2, "little"))
    app = device.start(nobody, board=app.board, **SETUP)
    app.board.wifi = ONLINE
    with no_network():
        device.run(1)
    assert app.board.recall() == b"gone\0\0"
    app.board.wifi = app.board.joins = NO_AP
    assert device.run(100)[-1] == (15, "restart")
    assert "set-up" not in log.text


def test_a_trial_goes_on_without_the_set_up(device, nobody):
    """Its starts are counted: none may open the page."""
    for is_release in (True, False):
        app = device.start(nobody, **SETUP)
        app.board.wifi = app.board.joins = NO_AP
        app.board.remember(GONE)
        app = device.start(nobody, board=app.board, **SETUP)
        if is_release:
            app.update = SimpleNamespace(runs=True, step=lambda: None)
        else:
            app.config.trial = True
        assert device.run(device.minutes + 14)[-1][1] == "radio off" and "set-up" not in log.text


def test_the_time_is_asked_for_again_in_a_minute(device, automatic, monkeypatch):
    """Until a server has told it; and a day later, when the device knows it."""
    monkeypatch.setattr("time.time", lambda: 1_800_000_000 + device.minutes * 60)
    found, answers = [], [False, False, True, True, False, None, True]

    def sync_time(host, within):
        found.append((round(device.minutes), within and (within[0] + 900, within[1] - 900)))
        return answers[min(len(found), len(answers)) - 1]

    with automatic() as broker:
        device.start(broker.port, wifi_ssid=None, wifi_key=None).board.sync_time = sync_time
        device.run(1.5)
        assert [minute for minute, _ in found] == [0, 1] and not device.app.synchronised
        device.run(5)
        device.pass_until(DAY - 5)
        device.run(DAY + 10)
    assert [minute for minute, _ in found] == [0, 1, 2, 3, 1443, 1444, 1445] and device.app.synchronised
    assert [within for _, within in found[:3]] == [None] * 3
    for minute, within in found[3:]:
        assert within[0] == within[1] and abs(within[0] - 1_800_000_000 - minute * 60) < 60


@pytest.mark.parametrize("kb", [12, 32])
def test_a_device_that_restarts_bridges_what_is_told(device, nobody, clock, monkeypatch, kb):
    monkeypatch.setattr("time.time", lambda: 1_800_000_000 + int(clock.now))
    monkeypatch.setattr(Board, "sleep", lambda *_: sys.exit())
    read = []
    fields = {"interval_ms": 10_000, "health_ms": 60_000}
    more = {"flash": RamFlash(kb // 4, 4096), "sources": [lambda: read.append(1) or READINGS]}
    app = device.start(nobody, **fields, **more)
    with no_network():
        device.run(1)
        app.board.wifi = app.board.joins = NO_AP
        while not app.full:
            before = len(read)
            try:
                app.step()
            except SystemExit:
                app.board.cause = SOFT
                app = device.start(nobody, board=app.board, **fields, **more)
    assert before >= bridged_s(check({"host": "b", **fields}, "dev"), kb) / 10
