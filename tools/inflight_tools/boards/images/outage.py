"""How long an outage a device bridges: the firmware's own code publishes, and what the messages take of the journal is
counted, as the journal itself counts it."""

import copy
import importlib
import itertools
from types import SimpleNamespace
from typing import Any

from inflight import Journal, OutboxFull, RamFlash
from inflight.counters import DROPPED, NAMES, by_name
from inflight.journal.journal import OUT
from inflight_tools.settings import device_code

_BLOCK = 4096
_READINGS = [(f"temperature-{k}", "Cel", -21.53) for k in range(3)]  # of a board without `sensors`, too
_TIME_CS = 173_568_960_037  # most messages begin within a second; the rows follow at whole intervals


class _Journal(Journal):
    """A journal to which nothing is written."""

    found_seq = 0

    def __init__(self, device):
        super().__init__(device)
        self.epoch = 0xFFFFFFFF  # the longest

    def find(self, kind, seq):
        return 0


class _Client:
    """A client without a connection."""

    connected = False

    def __init__(self, journal):
        self._journal = journal
        self._costs = {}  # by number
        self.session = SimpleNamespace(count=[0] * len(NAMES.split()))

    def publish(self, topic, payload, qos, retain=False, properties=None):
        journal = self._journal
        rest = len(topic) + len(payload) + 4
        size = 1 + (1 if rest < 128 else 2) + rest  # of the PUBLISH
        if not journal.fits(OUT, size):
            raise OutboxFull("")
        seq = journal.next_seq
        self._costs[seq] = journal.cost(size)
        journal.used += self._costs[seq]
        journal.live += 1
        journal.next_seq += 1
        return seq + 1

    def discard(self, mid, seq):
        self._journal.used -= self._costs.pop(seq)
        self._journal.live -= 1
        self.session.count[DROPPED] += 1
        return True

    def counters(self):
        return by_name(self.session.count) | {"accepted": self._journal.next_seq}


def _device(config, journal, flash) -> Any:
    """The firmware's Node without a connection; its time is `now_s`, in seconds."""

    node: Any = importlib.import_module("node").Node

    class Device(node):
        now_s = 0.0
        synchronised = True

        def _time_cs(self):
            return _TIME_CS + int(self.now_s * 100)

        def uptime(self):
            return int(self.now_s)

        def _thin(self, size):
            if not journal.fits(OUT, size):
                self.full += self.config.thins  # from here on readings go

    config = copy.copy(config)
    config.actuators = config.ha = None
    device = Device(SimpleNamespace(reset_cause=lambda: "power-on"), config, journal, _Client(journal), flash, ())
    device.synchronised = True
    return device


def bridged_s(config, journal_kb) -> int:
    """Seconds without a network until a device refuses or gives up a message, whose checked configuration is `config`
    and whose journal has so many KiB: of readings, three or one of each sensor, and of health messages, which a device
    that sleeps does not write then."""
    readings = _READINGS
    if config.sensors:
        readings = [(f"temperature-{k}", *_READINGS[0][1:]) for k in range(len(config.sensors))]
    every_s = (config.sleep_ms or config.interval_ms) / 1000
    flash = RamFlash(journal_kb * 1024 // _BLOCK, _BLOCK)
    with device_code():
        device = _device(config, _Journal(flash), flash)
        every_health_s = told_s = max(config.health_ms, importlib.import_module("telemetry").HEALTH_MS) / 1000
        for number in itertools.count():
            device.now_s = number * every_s
            if config.sleep_ms:
                _wake(device, number)
            try:
                device._publish_telemetry(readings)
                if device.now_s >= told_s and not config.sleep_ms:
                    device._publish_health()
                    told_s += every_health_s
            except OutboxFull:
                break
            if device.full:
                break
    return int(device.now_s)


def _wake(device, number):
    # Of report_every wakes one reports, and its reading is in a message of its own.
    reports = number % device.config.report_every == 0
    if reports and device.config.report_every > 1:
        device._batch = None
    elif not device._batch:
        device._gather()


def told(seconds: int) -> str:
    """That time for people, rounded down: "2 hours 56 minutes"."""
    units = (("days", 86_400), ("hours", 3600), ("minutes", 60), ("seconds", 1))
    for (name, unit), (smaller, part) in itertools.pairwise(units):
        if seconds >= 2 * unit:
            more = seconds % unit // part if name != "minutes" else 0
            return f"{seconds // unit} {name}" + (f" {more} {smaller}" if more else "")
    return f"{seconds} seconds"
