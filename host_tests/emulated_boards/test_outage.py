"""A Pico W without broker, network and time: what it measured meanwhile is in the tables, at its true time."""

import datetime
import time

import pytest

from host_tests.emulated_boards.tasks import CODE, harness
from inflight_tools.boards import slots
from inflight_tools.boards.build.bundle import files
from tools.demo.downstream import Downstream
from tools.peers import ntp
from tools.peers.mosquitto import Mosquitto

pytestmark = [pytest.mark.boards("pico_w"), pytest.mark.timeout(10_800)]
_S = 5400
_AGO_S, _LATER_S = 7200, 3600  # from the start of the first life to now, and to the second one
_ALONE = 90  # readings between the last one with a network and the restart after 15 minutes, at the default interval


class Notes(list):
    """The board's notes, and when it wrote each: {number of a message: seconds on its clock}."""

    def __init__(self, clock):
        super().__init__()
        self._clock = clock
        self.at = {}

    def append(self, note):
        super().append(note)
        if note & 3:
            self.at.setdefault(note >> 2, self._clock.nanos / 1e9)


def flash(emulated, port):
    """That of a sensor with the defaults; it notes what it accepts."""
    board = emulated.SENSOR.BOARD
    config = emulated.SENSOR.config(port, "alone", batch=20)
    own = {"/main.py": (CODE / "noting.py").read_bytes(), "/config.json": config}
    return emulated.installed(slots.packed(files(board), board) | harness(board) | own)


def test_an_outage_with_a_power_cut_and_no_time(emulated, tmp_path, monkeypatch, record_property):
    """It restarts for lack of a connection, and goes on; the power goes while it programs the flash; then it has a
    network, but no broker, and no time server for the next minutes."""
    began = int(time.time()) - _AGO_S
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(began - 86_400))  # no device takes an earlier time
    found = {}  # the time at which each message was accepted

    def served(board, since):
        """Tells the board the time on its own clock, as that began at `since`."""
        board.notes = Notes(board.mcu.clock)
        clock = board.mcu.clock
        board.radio.gateway.services[ntp.PORT] = lambda _: ntp.answer(_, since + clock.nanos / 1e9)

    def keep(board, since):
        found.update({seq: since + at for seq, at in board.notes.at.items()})

    async def first(board):
        served(board, began)
        with broker:
            await board.until(lambda: len(downstream.landed()) > 2, _S, "telemetry")
        board.network_away()
        await board.until(lambda: len(board.notes.at) > _ALONE + 15, _S, "readings before and after a restart")
        board.power.cut_at_operation(2, "torn", 0.5, ("program",))
        await board.until(lambda: board.power.cut, _S, "the power cut")
        keep(board, began)

    async def second(board):
        served(board, began + _LATER_S)
        answer = board.radio.gateway.services.pop(ntp.PORT)
        await board.until(lambda: len(board.notes.at) > 8, _S, "readings without a time")
        board.radio.gateway.services[ntp.PORT] = answer
        told = len(board.notes.at)
        await board.until(lambda: len(board.notes.at) > told + 8, _S, "readings, and what dates those before")
        with broker:
            newest = max(board.notes.at)
            await board.until(lambda: newest in {seq for _, seq in downstream.landed()}, _S, "all that waited")
        keep(board, began + _LATER_S)

    broker = Mosquitto(tmp_path / "broker")
    downstream = Downstream(tmp_path / "fleet", broker.port, "inflight")
    with broker:
        downstream.collector.on()
        downstream.collector.wait_for("connected to the broker")
    _, left = emulated.cold(flash(emulated, broker.port), first)
    assert b"no connection for 15 minutes" in emulated.unpack(left)["/crash.json"]
    emulated.cold(left, second)
    with broker:
        downstream.spark.on()
        facts = downstream.finish()
    assert facts["fleet"]["lost"] == 0
    rows = downstream.rows("measurements")
    off = {}
    for row in rows:
        at = row["time"].replace(tzinfo=datetime.timezone.utc).timestamp()
        off[row["seq"]] = at - found.get(row["seq"], at)  # the one that was cut may have become durable
    record_property(
        "readings", f"{len(off)}, {min(off.values()):.1f} to {max(off.values()):.1f} s from their true time"
    )
    assert len(off) > _ALONE + 30
    assert {row["clock"] for row in rows} == {"device", "uptime"}
    assert all(-3 <= error <= 1 for error in off.values()), off  # NTP and a Pico's clock have whole seconds
