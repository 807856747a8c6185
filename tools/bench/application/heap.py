"""`make bench-heap`: what the application of a board holds of its heap while it is connected, by its configuration.

The application is the one that is deployed, on 32-bit MicroPython: objects are as large as on a board, and the file
system is littlefs with the same paths. The modules of the port are stand-ins (device/port.py)."""

import ast
import base64
import itertools
import json
import re
import subprocess
import tempfile
from pathlib import Path

import trustme
import typer

from inflight_tools.boards.build import bundle
from inflight_tools.boards.build.rename import private_words, rename_private, set_apart
from inflight_tools.boards.images.filesystem import BLOCK, build
from inflight_tools.cache import write_below
from tools.bench.figures.run import SCRIPTS
from tools.demo.sensors import best_runtime
from tools.peers.certificates import der, server_context
from tools.peers.mosquitto import Mosquitto
from tools.peers.subscriber import Subscriber
from tools.peers.tls_proxy import tls_proxy
from tools.setup.common import CHECKOUT
from tools.shown import show

BOARDS = {"rp2040": "Pico W", "esp32": "ESP32"}  # folder: what people call it
_SCRIPTS = CHECKOUT / "tools/bench/application/device"
_SIZE = 212 * BLOCK
_FIELDS = {"wifi_ssid": "attic", "wifi_key": "secret-key", "ntp": False, "ha": True}
_FAST = {"interval_ms": 300, "health_ms": 1000}
_AT_REST = 3  # lines after all has happened once
_RUNS = 3
_NAMES = re.compile(r"n_qstr=(\d+)")

# What is measured: fields of the configuration; None takes one out.
BASE = "Home Assistant, no other option"
OPTIONS = {
    "without Home Assistant": {"ha": None},
    "updates": {"update_keys": [base64.b64encode(b"\xff" * 384).decode()]},
    "log at level info": {"log": "info"},
    "a fixed address": {"wifi_ip": ["192.168.1.9", "255.255.255.0", "192.168.1.1", "192.168.1.1"]},
    "a sensor: adc": {"sensors": [{"driver": "adc", "pin": 1}]},
    "two sensors: adc, digital": {"sensors": [{"driver": "adc", "pin": 1}, {"driver": "digital", "pin": 2}]},
    "an actuator: switch": {"actuators": [{"driver": "switch", "pin": 1}]},
    "MQTT 5": {"protocol_level": 5},
}
COMMAND = "a command was executed"
TLS = "TLS"


class Failed(RuntimeError):
    """The application ended."""


class Application:
    """The application of board folder `board`, compiled, with the broker at `port`. folder: for files."""

    def __init__(self, board, port, folder):
        self._board, self._port, self._folder = board, port, folder
        self._files = bundle.files(board)
        self._numbers = itertools.count()
        write_below(folder, {f"{name}.mpy": bundle.compile_mpy(text, name) for name, text in _scripts().items()})

    def run(self, fields, more=None, command=None, modules=False):
        """Yields the lines that the application prints, until it has been at rest for some of them. fields: of the
        configuration. more: files. command: is sent, too."""
        device = f"figure{next(self._numbers):02}"  # of an old one the broker would have a session
        own = {"device": device, "host": "127.0.0.1", "port": self._port}
        flash = self._folder / "open"  # an argument is a name, too, and the interpreter has this one
        flash.write_bytes(self._volume({**_FIELDS, **_FAST, **own, **fields}, more))
        words = ["-m", "heap", flash.name, self._board, *(["modules"] if modules else [])]
        with Subscriber(self._port, f"inflight/{device}/#", device) as subscriber:
            process = subprocess.Popen(
                [*best_runtime().command("512k"), *words],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={"MICROPYPATH": "."},
                cwd=self._folder,
            )
            try:
                yield from self._lines(process, subscriber, f"inflight/{device}", command)
            finally:
                process.kill()
                process.communicate()

    def _volume(self, fields, more):
        config = json.dumps({name: value for name, value in fields.items() if value is not None})
        volume = bytearray(b"\xff") * _SIZE
        for at, content in build(self._files | {"/config.json": config.encode()} | (more or {}), _SIZE, 256):
            volume[at : at + len(content)] = content
        return bytes(volume)

    def _lines(self, process, subscriber, root, command):
        told, left = [], _AT_REST
        topic, times = f"{root}/health", 2
        for line in process.stdout:
            told.append(line)
            yield line.strip()
            if not line.endswith("heap\n") or len(subscriber.find(topic)) < times:
                continue
            if command:
                subscriber.publish(f"{root}/command/{command}", b"hello")
                topic, times, command = f"{root}/reply/{command}", 1, None
            else:
                left -= 1
            if not left:
                return
        raise Failed("".join(told[-20:]))


def _scripts():
    """{module: text} of the scripts. Their private names are words that take no place in the table of names: with as
    many names as on a board it grows where it grows there."""
    texts = {path.stem: path.read_text() for path in (*_SCRIPTS.glob("*.py"), SCRIPTS / "held.py")}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    words = private_words(texts.values())
    set_apart(trees, words)
    rename_private(trees, words)
    return {name: ast.unparse(tree) for name, tree in trees.items()}


def held(application, runs=_RUNS, **options):
    """(bytes of heap, new names) that it holds at rest. Where something on the stack looks like a reference to a module
    that was given back, that stays: the least of some runs is without that."""
    found = []
    for _ in range(runs):
        lines = list(application.run(**options))
        bytes_ = [int(line.split()[0]) for line in lines if line.endswith("heap")]
        names = [int(number[1]) for line in lines if (number := _NAMES.search(line))]
        found.append((min(bytes_[-_AT_REST:]), names[-1] - names[0]))
    return min(found)


def modules_of(board, folder):
    """{module: bytes that its import takes, and that stay as long as it does} in the order of imports."""
    with Mosquitto(folder / "broker") as broker:
        lines = list(Application(board, broker.port, folder).run({}, modules=True))
    found = (line.split() for line in lines if " of module " in line)
    return {name: int(took) for took, *_, name in found}


def measure(board, folder, runs=_RUNS):
    """{option: (bytes, new names)} for the board folder `board`: of BASE all, of each other one what it adds."""
    ca = trustme.CA()
    with Mosquitto(folder / "broker") as broker, tls_proxy(broker.port, server_context(ca, "localhost")) as relay:
        application = Application(board, broker.port, folder)
        base = held(application, runs, fields={})
        secure = {"host": "localhost", "port": relay.port, "tls_ca": "/ca.der"}
        found = {name: held(application, runs, fields=fields) for name, fields in OPTIONS.items()}
        found[TLS] = held(application, runs, fields=secure, more={"/ca.der": der(ca)})
        found[COMMAND] = held(application, runs, fields={}, command="ping")
    more = {name: tuple(a - b for a, b in zip(one, base, strict=True)) for name, one in found.items()}
    return {BASE: base, **more}


def main(markdown: bool = False, modules: bool = False, runs: int = _RUNS):
    """Prints the heap that the application holds on a Pico W and on an ESP32 while it is connected. modules: what each
    module takes that stays, instead. runs: of each configuration."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        show(_modules(folder) if modules else _options(folder, runs), markdown)


def _options(folder, runs):
    found = {board: measure(board, folder / board, runs) for board in BOARDS}
    rows = [["", *(f"{BOARDS[board]}, {what}" for board in found for what in ("bytes", "names"))]]
    for option in next(iter(found.values())):
        form = "{:,}" if option == BASE else "{:+,}"
        rows.append([option, *(form.format(n) for own in found.values() for n in own[option])])
    yield "Heap of the application, connected, and what each option adds", rows


def _modules(folder):
    for board, name in BOARDS.items():
        rows = sorted(modules_of(board, folder / board).items(), key=lambda row: -row[1])
        yield f"Modules that stay, {name}", [["module", "bytes"], *([module, f"{took:,}"] for module, took in rows)]


if __name__ == "__main__":
    typer.run(main)
