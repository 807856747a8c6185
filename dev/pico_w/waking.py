"""How long a sensor that sleeps is awake: emulated time from the reset that ends its sleep until its readings are in
flash, and until the broker has acknowledged them.

Flash takes no emulated time, and the emulated access point and broker answer at once, so this is the processor's share
and that of waiting that the firmware itself prescribes. The emulator does not wake a chip that sleeps: the reset that
ends a sleep is given from here."""

import tempfile
from pathlib import Path

from rp2040py.external.cyw43 import net
from rp2040py.peripherals import watchdog

from dev.demo import mosquitto
from dev.pico_w import copies, filesystem, sensor
from dev.pico_w.board import Board
from dev.subscriber import Subscriber
from inflight_tools.boards.bundle import STARTERS, files, sources

_S = 1800
_DEVICE = "wakes"
_TELEMETRY = f"inflight/{_DEVICE}/telemetry".encode()
_PUBACK = 0x40
_ASLEEP = 2  # in bits 5 and 6 of a scratch register, see boards/rp2040/board.py
_SLEEP_NS = 1_000_000_000  # after that note: the radio is off, and the chip sleeps
_FIELDS = {
    "sleep_ms": 60_000,
    "health_ms": 60_000,
    # No time for DHCP. The gateway answers as name server, too.
    "wifi_ip": ["10.0.0.2", "255.255.255.0", "10.0.0.1", "10.0.0.1"],
}


class _Wakes:
    """wakes: what happens in each wake of `board`, {event: ns since its start}; the last one is the current one."""

    def __init__(self, board):
        self.wakes = [{}]
        self._board = board
        self._clock = board.mcu.clock
        self._start = self._clock.nanos
        self._end_of_sleep = self._clock.create_alarm(self._reset)
        write = board.mcu.watchdog.write_uint32

        def on_write(offset, value):
            write(offset, value)
            if offset == watchdog.SCRATCH5 and value >> 5 & 3 == _ASLEEP:
                self._end_of_sleep.schedule(_SLEEP_NS)

        board.mcu.watchdog.write_uint32 = on_write
        board.power.on_operation = self._on_operation
        board.radio.on_frame = self._on_frame

    def _reset(self):
        self._board.mcu.watchdog._reason = watchdog.TIMER
        self._board.mcu.watchdog.on_watchdog_trigger()
        self._start = self._clock.nanos
        self.wakes.append({})

    def _note(self, event):
        self.wakes[-1].setdefault(event, self._clock.nanos - self._start)

    def _on_operation(self, kind, address, old, new):
        if kind == "program" and _TELEMETRY in new and _TELEMETRY not in old:
            self._note("readings")

    def _on_frame(self, frame):
        ip = net.parse_ipv4(net.parse_ethernet(frame).payload)
        tcp = ip and net.parse_tcp(ip.payload)
        # The readings are the first message of a wake that has to be acknowledged.
        if tcp and "readings" in self.wakes[-1] and _PUBACK in _packets(tcp.payload):
            self._note("acknowledged")


def _packets(data):
    """The first bytes of the MQTT packets in `data`; the broker sends short ones alone."""
    at = 0
    while at + 1 < len(data):
        yield data[at]
        at += 2 + data[at + 1]


def _of_source():
    found = {f"/lib/{place}.py": file for place, file in sources(sensor.BOARD).items()}
    found |= {f"/{name}.py": found.pop(f"/lib/{name}.py") for name in STARTERS}
    return {path: file.read_bytes() for path, file in found.items()}


def wake(application, uf2=None):
    """(ms until the readings are in flash, ms until the broker has acknowledged them, `wake` of the health message
    about that wake) of the first wake of a sensor with the files `application`, and firmware `uf2`."""
    with tempfile.TemporaryDirectory() as folder, mosquitto.Mosquitto(Path(folder)) as broker:
        settings = {"/config.json": sensor.config(broker.port, _DEVICE, **_FIELDS)}
        board = Board(filesystem.pack(application | settings), uf2)
        seen = _Wakes(board)

        async def live(board):
            with Subscriber(broker.port, f"inflight/{_DEVICE}/#") as subscriber:
                # The first health message of the second wake tells about the first one.
                health = f"inflight/{_DEVICE}/health"
                await board.until(lambda: len(seen.wakes) > 2 and subscriber.find(health)[2:], _S, "two wakes")
                return subscriber.find(health)[2].fields["wake"]

        parts = copies.staged(live, board, board.switch_on)
    first = seen.wakes[1]
    return first["readings"] / 1e6, first["acknowledged"] / 1e6, parts


def times(firmware):
    """Yields (what, ms) of a wake with the application as source, compiled, in each of `firmware`, a list of Own."""
    ways = [(".py", _of_source(), None), (".mpy", files(sensor.BOARD), None)]
    ways += [(f"{one.frozen.what} frozen", one.files(), one.path) for one in firmware]
    for name, application, uf2 in ways:
        readings, acknowledged, parts = wake(application, uf2)
        yield f"{name}: readings in flash", round(readings)
        yield f"{name}: acknowledged by the broker", round(acknowledged)
        told = ", ".join(f"{part} {parts[part]}" for part in ("read", "journal", "wifi", "connect", "deliver"))
        yield f"{name}: the whole wake ({told})", parts["total"]
