"""The time that `inflight board image` tells is the time that a device bridges: to the reading."""

import json
from types import SimpleNamespace

import pytest

import node
from config import check
from host_tests.clients import cut_power
from host_tests.firmware.conftest import Counting, gathered
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
    {"when_full": "newest"},
    {"root": "a/rather/long/root/of/topics"},
)


@pytest.fixture
def dated(clock, monkeypatch):
    """The time: as most, one within a second."""
    monkeypatch.setattr(node, "time", SimpleNamespace(time=lambda: 1_735_689_600.375 + clock.time()))


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
    while not (app.full or app.client.counters()["dropped"]):
        before = len(read)
        app.step()
    return before


@pytest.mark.usefixtures("dated")
@pytest.mark.parametrize("kb, fields", [(32, {}), *((12, fields) for fields in OPTIONS)], ids=str)
def test_a_device_bridges_what_is_told(make, nobody, kb, fields):
    fields = {"device": "dev", **fields}
    config = check({"host": "b", "interval_ms": 10_000, **fields}, "dev")
    every_s = config.interval_ms / 1000
    assert kept(make, nobody, kb, **fields) == bridged_s(config, kb) / every_s


def run(app, condition):
    app.client.most_ms = 500
    app.synchronised = True
    while not condition():
        app.step()


@pytest.mark.usefixtures("dated")
@pytest.mark.parametrize("fields, most", [({}, 20), ({"batch": 1}, 1)], ids=["gathered", "singly"])
def test_a_full_journal_is_thinned(make, nobody, automatic, fields, most):
    """From the oldest reading on every second message goes, the newer half stays; all that is missing is counted, also
    over a power cut."""
    make.backoff_ms = 60_000, 60_000
    flash, board = RamFlash(5, 4096), Counting()
    fields = {"interval_ms": 10_000, "health_ms": 86_400_000, "when_full": "thin", **fields}
    app = make(nobody, flash, board=board, **fields)
    run(app, lambda: (board.path.parent / "thinned").exists())
    full = board.count
    run(app, lambda: board.count >= full * 9 // 8)
    cut_power(app.client)
    app = make(nobody, flash, board=board, **fields)
    run(app, lambda: board.count >= full * 5 // 4)
    assert (app.full, app.client.counters()["dropped"]) == (0, 0)
    cut_power(app.client)
    last = board.count
    make.backoff_ms = 0, 0
    with automatic() as broker:
        app = make(broker.port, flash, board=board, **{**fields, "health_ms": 1000})
        run(app, lambda: board.count > last + 3 and not app.client.pending)
    found = {values["count"] for _, values in gathered(broker).values()}
    missing = [count for count in range(1, board.count) if count not in found]
    told = [json.loads(m.payload)["counters"]["thinned"] for m in broker.arrived if m.topic.endswith("health")]
    assert told[-1] == len(missing) > full // 8 and missing[-1] < last * 3 // 4
    gaps = [[]]
    for count in missing:
        if gaps[-1] and count != gaps[-1][-1] + 1:
            gaps.append([])
        gaps[-1].append(count)
    assert max(map(len, gaps)) <= 3 * most and len(gaps[-1]) <= most  # where it has gone on from the oldest again


@pytest.mark.usefixtures("dated")
def test_what_cannot_be_thinned_is_refused(make, nobody):
    """Messages of the window may have been sent, and the newest one stays."""
    make.backoff_ms = 60_000, 60_000
    app = make(nobody, RamFlash(3, 1024), max_inflight=64, interval_ms=10_000, when_full="thin", batch=1)
    run(app, lambda: app.full >= 2)
    assert len(app.board.log) == app.journal.live == app.journal.next_seq
