"""What a sensor costs a Pico W, measured with the real firmware on the emulated board: `make figures-pico-w`.

The emulator runs the same instructions each time, so the figures are exact, and the same on every machine."""

import sys
import tempfile
from pathlib import Path

import trustme

from inflight_tools.boards import slots
from tools.emulators.pico_w import copies, filesystem, image, own, sensor, waking
from tools.emulators.pico_w.board import Board
from tools.peers import mosquitto
from tools.peers.certificates import der, server_context
from tools.peers.subscriber import Subscriber
from tools.peers.tls_proxy import tls_proxy
from tools.shown import show

_PROMPT_S = 600
_SENSOR_S = 900
_FREE = "import gc; gc.collect(); print(gc.mem_free())"
_IMPORT = "from inflight import Client, Journal"


async def _at_the_prompt(board):
    free = int(await board.run(_FREE))
    await board.run(_IMPORT, _PROMPT_S)
    return free, int(await board.run(_FREE))


def at_the_prompt(uf2=None):
    """Bytes of heap that are free after boot, and after the library was imported from .mpy files, or is in the firmware
    `uf2`."""
    brought = {} if uf2 else sensor.application()
    board = Board(filesystem.pack({p: data for p, data in brought.items() if p.startswith("/lib/inflight/")}), uf2)
    return copies.staged(_at_the_prompt, board, board.switch_on)


def of_a_sensor(broker, fields, more=(), firmware=None):
    """Bytes of heap that are free in a running sensor, as it says in a health message while it is connected. fields: of
    its configuration. more: files. firmware: an Own, instead of MicroPython's own."""
    fields = {"port": broker.port, "interval_ms": 2_000, "health_ms": 3_000} | fields

    async def live(board):
        with Subscriber(broker.port, "inflight/figures/#") as subscriber:
            await board.until(lambda: subscriber.find("inflight/figures/status"), _SENSOR_S, "the birth message")
            topic = "inflight/figures/health"
            known = len(subscriber.find(topic))
            await board.until(lambda: len(subscriber.find(topic)) > known, _SENSOR_S, "a health message")
            return subscriber.find(topic)[-1].fields["heap"]

    config = sensor.config(device="figures", **fields)
    if firmware:
        board = firmware.board(config)
    else:
        deployed = slots.packed(sensor.application(), sensor.BOARD)
        board = Board(filesystem.pack(deployed | {"/config.json": config} | dict(more)))
    return copies.staged(live, board, board.switch_on)


def measure(folder, firmware):
    """Yields (what, bytes of free heap). firmware: a list of Own."""
    boot, imported = at_the_prompt()
    yield "after boot", boot
    yield "after import of client and journal, .mpy", imported
    ca = trustme.CA()
    with mosquitto.Mosquitto(folder) as broker:
        yield "the sensor, connected", of_a_sensor(broker, {})
        with tls_proxy(broker.port, server_context(ca, sensor.TLS_HOST)) as relay:
            secure = {"host": sensor.TLS_HOST, "port": relay.port, "tls_ca": "/ca.der"}
            yield "the sensor, connected with TLS", of_a_sensor(broker, secure, {"/ca.der": der(ca)})
        for one in firmware:
            if one.frozen and not one.frozen.board:  # else the application has started by then
                boot, imported = at_the_prompt(one.path)
                yield "after boot, library frozen", boot
                yield "after import of client and journal, library frozen", imported
            yield f"the sensor, connected, {one.what}", of_a_sensor(broker, {}, firmware=one)


def _rows(unit, figures):
    rows = [["", unit]]
    for what, figure in figures:
        print(f"{what}: {figure}", file=sys.stderr)  # each takes minutes
        rows.append([what, f"{figure:,}"])
    return rows


PARTS = ("heap", "wake", "energy")


def main():
    parts = sys.argv[1:] or PARTS
    if unknown := set(parts) - {*PARTS}:
        sys.exit(f"no part {min(unknown)}: there are {', '.join(PARTS)}")
    if reason := image.unavailable() or mosquitto.unavailable():
        sys.exit(reason)
    try:
        firmware = own.firmware()
    except ValueError as e:
        sys.exit(str(e))
    for one in firmware or [own.NONE]:
        print(one)
    with tempfile.TemporaryDirectory() as name:
        tables = {
            "heap": ("Free heap on a Pico W, MicroPython 1.26.1", "bytes", measure(Path(name), firmware)),
            "wake": ("A wake of a sensor, beside the time of flash and radio", "ms", waking.times(firmware)),
            "energy": ("A sensor's battery, with currents that are assumed", "", waking.battery()),
        }
        chosen = [tables[part] for part in PARTS if part in parts]
        show([(title, _rows(unit, figures)) for title, unit, figures in chosen], markdown=False)


if __name__ == "__main__":
    main()
