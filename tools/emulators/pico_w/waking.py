"""How long a sensor that sleeps is awake: emulated time from the reset that ends its sleep until its readings are in
flash, until the broker has acknowledged them, and until it sleeps again.

Flash takes no emulated time, and the emulated access point and the broker answer at once, so this is the processor's
share, and the waiting that firmware and protocols prescribe. The emulator does not wake a chip that sleeps: the reset
that ends a sleep is given from here."""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path

from rp2040py.external.cyw43 import net
from rp2040py.external.cyw43.nat import GATEWAY_MAC
from rp2040py.gpio_pin import GPIOPinState
from rp2040py.peripherals import watchdog

from inflight_tools.boards import slots
from tools.emulators.pico_w import copies, energy, filesystem, sensor
from tools.emulators.pico_w.board import Board
from tools.peers import mosquitto

READINGS, ACKNOWLEDGED, ASLEEP = "readings in flash", "acknowledged by the broker", "asleep again"
RADIO = "radio on"
EVENTS = (READINGS, ACKNOWLEDGED, ASLEEP)
_POWER_PIN = 23  # of the Wi-Fi chip
_S = 1800
_PUBACK = 0x40
_KEPT_ASLEEP = 2  # in bits 5 and 6 of a scratch register, see boards/rp2040/board.py
_SLEEP_NS = 1_000_000_000  # after that note: the radio is off by then, and the chip sleeps
_FIELDS = {
    "sleep_ms": 60_000,
    # No time for DHCP. The gateway answers as name server and as time server, too.
    "wifi_ip": ["10.0.0.2", "255.255.255.0", "10.0.0.1", "10.0.0.1"],
}


class Wake:
    """What happens in one wake, by a `clock` that has nanos. ms: {event: since its start}."""

    def __init__(self, clock):
        self.ms = {}
        self._clock = clock
        self._start = clock.nanos
        self._on_air = False

    def _now(self):
        return (self._clock.nanos - self._start) / 1e6

    def radio_on(self):
        """The Wi-Fi chip gets power."""
        self.ms.setdefault(RADIO, self._now())

    def programmed(self):
        """The flash was programmed. The last time before the radio is used, the readings were complete."""
        if not self._on_air:
            self.ms[READINGS] = self._now()

    def frame(self, frame):
        """A frame passed the access point, to the board or from it."""
        ethernet = net.parse_ethernet(frame)
        self._on_air = True
        if ethernet.src_mac != GATEWAY_MAC:
            return
        ip = net.parse_ipv4(ethernet.payload) if ethernet.ethertype == net.ETHERTYPE_IPV4 else None
        tcp = net.parse_tcp(ip.payload) if ip and ip.proto == net.IP_PROTO_TCP else None
        # The readings are the first message of a wake that has to be acknowledged.
        if tcp and _PUBACK in _packets(tcp.payload):
            self.ms.setdefault(ACKNOWLEDGED, self._now())

    def slept(self):
        """It switches off what it does not need, and sleeps."""
        self.ms.setdefault(ASLEEP, self._now())


def _packets(data):
    """The first bytes of the MQTT packets in `data`: short ones, as a broker answers with."""
    at = 0
    while at + 1 < len(data):
        yield data[at]
        at += 2 + data[at + 1]


class _Watch:
    """The wakes of `board`: the start from cold, and those that follow."""

    def __init__(self, board):
        self.wakes = [Wake(board.mcu.clock)]
        self._board = board
        self._end_of_sleep = board.mcu.clock.create_alarm(self._reset)
        self._write = board.mcu.watchdog.write_uint32
        board.mcu.watchdog.write_uint32 = self._on_write
        board.power.on_operation = self._on_operation
        board.mcu.gpio[_POWER_PIN].add_listener(self._on_power)
        board.radio.gateway.on_frame = lambda frame: self.wakes[-1].frame(frame)

    def _on_write(self, offset, value):
        self._write(offset, value)
        if offset == watchdog.SCRATCH5 and value >> 5 & 3 == _KEPT_ASLEEP:
            self.wakes[-1].slept()
            self._end_of_sleep.schedule(_SLEEP_NS)

    def _on_power(self, state, before):
        if state == GPIOPinState.HIGH:
            self.wakes[-1].radio_on()

    def _on_operation(self, kind, *_):
        if kind == "program":
            self.wakes[-1].programmed()

    def _reset(self):
        # As the firmware does when its sleep is over.
        self.wakes.append(Wake(self._board.mcu.clock))
        self._write(watchdog.CTRL, watchdog.TRIGGER)


def wake(make_board):
    """{event: ms} of the second wake of the sensor on the Board that make_board(configuration) returns: the first one
    notes what later ones need not ask for."""
    with tempfile.TemporaryDirectory() as folder, mosquitto.Mosquitto(Path(folder)) as broker:
        board = make_board(sensor.config(broker.port, "wakes", **_FIELDS))
        watch = _Watch(board)

        async def live(board):
            await board.until(lambda: len(watch.wakes) > 3, _S, "the end of the second wake")

        copies.staged(live, board, board.switch_on)
    return watch.wakes[2].ms


@functools.cache
def deployed():
    """{event: ms} of the application as a cable brings it."""
    application = slots.packed(sensor.application(), sensor.BOARD)
    return wake(lambda config: Board(filesystem.pack(application | {"/config.json": config})))


def times(firmware):
    """Yields (what, ms) of a wake with the application as .mpy, and in each of `firmware`, a list of Own."""
    own: dict[str, Callable[[], dict]] = {one.what: functools.partial(wake, one.board) for one in firmware}
    for name, measure in ({".mpy": deployed} | own).items():
        ms = measure()
        for event in EVENTS:
            yield f"{name}: {event}", round(ms[event])


def battery():
    """Yields (what, number) of the same wake as .mpy: what it takes out of a battery."""
    ms = deployed()
    return energy.figures(ms[ASLEEP], ms[ASLEEP] - ms[RADIO])
