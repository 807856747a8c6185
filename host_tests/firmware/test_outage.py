"""The time that `inflight board image` tells is the time that a device bridges: to the reading."""

from types import SimpleNamespace

import pytest

import telemetry
from config import check
from inflight import RamFlash
from inflight_tools.boards.images.outage import bridged_s

READINGS = [(f"temperature-{k}", "Cel", -21.53) for k in range(3)]
OPTIONS = (
    {},
    {"batch": 1},
    {"batch": 5},
    {"qos": 2},
    {"interval_ms": 60_000, "health_ms": 3_600_000},
    {"sensors": [{"driver": "adc", "pin": 4, "name": "temperature-0"}]},
    {"root": "a/rather/long/root/of/topics"},
)


@pytest.fixture
def whole_seconds(clock, monkeypatch):
    """The time, as boards tell it."""
    module = SimpleNamespace(time=lambda: 1_735_689_600 + int(clock.time()), gmtime=telemetry.time.gmtime)
    monkeypatch.setattr(telemetry, "time", module)


def kept(make, port, kb, **fields):
    """Readings that a device keeps until it refuses one."""
    make.backoff_ms = 60_000, 60_000
    sensors = fields.pop("sensors", None)
    app = make(port, RamFlash(kb // 4, 4096), **{"interval_ms": 10_000, **fields})
    app.client.most_ms = 500
    app.board.readings = READINGS[: len(sensors)] if sensors else READINGS
    app.synchronised = True
    app.journal.epoch = 0xFFFFFFFF
    read = []
    app.sources[0] = lambda: read.append(1) or app.board.readings
    while not app.full:
        before = len(read)
        app.step()
    return before


@pytest.mark.usefixtures("whole_seconds")
@pytest.mark.parametrize("kb", [12, 32])
@pytest.mark.parametrize("fields", OPTIONS, ids=str)
def test_a_device_bridges_what_is_told(make, nobody, kb, fields):
    fields = {"device": "dev", **fields}
    config = check({"host": "b", "interval_ms": 10_000, **fields}, "dev")
    every_s = config.interval_ms / 1000
    assert kept(make, nobody, kb, **fields) == bridged_s(config, kb) / every_s
