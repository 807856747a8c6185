"""Copies of one sensor on the emulated board: it has booted, imported everything and joined Wi-Fi; each copy then goes
on with a task of its own, and with the journal as an earlier copy left it."""

from contextlib import ExitStack
from pathlib import Path

import trustme

from dev.certificates import der, server_context
from dev.demo.mosquitto import Mosquitto
from dev.pico_w import copies, filesystem, sensor
from dev.pico_w.board import FLASH_SIZE, Board
from dev.pico_w.filesystem import BLOCK
from dev.pico_w.tls_proxy import tls_proxy
from inflight_tools.boards.bundle import compile_mpy, files

READY = 0x3FFFFFFF  # what the board notes when it is
# Tasks: a sensor with a configuration file of that number, QoS 0, or a publisher with that number as its name, which is
# connected or stays offline.
CUT, RESTART, DROP, TLS, WRONG_AUTHORITY, WRONG_NAME = range(6)
PLAIN, PUBLISHER, OFFLINE = 999, 1000, 2000
_CODE = Path(__file__).parent / "board"


async def _stop_when_ready(board):
    board.stop_at = READY
    await board.until(lambda: READY in board.notes, 600, "the board is ready")
    board.notes.clear()
    board.stop_at = None


class Brokers:
    """All that a sensor here may have to do with: a broker, TLS in front of it by the name broker.test, and a broker
    that its test starts and stops."""

    def __init__(self, folder):
        self.ca = trustme.CA()
        self.plain = Mosquitto(folder / "plain")
        self._tls_proxy = tls_proxy(self.plain.port, server_context(self.ca, "broker.test"))
        self.frail = Mosquitto(folder / "frail")

    def __enter__(self):
        with ExitStack() as running:
            running.enter_context(self.plain)
            running.enter_context(self._tls_proxy)
            self._running = running.pop_all()
        return self

    def __exit__(self, *what):
        self._running.close()

    def files(self):
        """The configurations, by the numbers of their tasks, and the certificates that they name."""
        often = {"interval_ms": 1000, "health_ms": 60_000}
        cut = {"qos": 2, "interval_ms": 200, "health_ms": 1000}
        secure = {"host": "broker.test", "tls_ca": "/ca.der", "interval_ms": 3000}
        configs = {
            CUT: sensor.config(self.plain.port, "sensor", **cut),
            RESTART: sensor.config(self.frail.port, "restart", qos=2, keepalive=5, **often),
            DROP: sensor.config(self.plain.port, "drop", qos=2, **often),
            TLS: sensor.config(self._tls_proxy.port, "tls", **secure),
            WRONG_AUTHORITY: sensor.config(self._tls_proxy.port, "impostor", **secure | {"tls_ca": "/other.der"}),
            WRONG_NAME: sensor.config(self._tls_proxy.port, "astray", **secure | {"host": "other.test"}),
        }
        found = {f"/{task}.json": content for task, content in configs.items()}
        return found | {"/ca.der": der(self.ca), "/other.der": der(trustme.CA())}


def application(brokers):
    """All files of the board: the application as it is deployed, but for a main.py that does several tasks."""
    found = files(sensor.BOARD) | brokers.files()
    found["/main.py"] = (_CODE / "main.py").read_bytes()
    found["/lib/publisher.mpy"] = compile_mpy((_CODE / "publisher.py").read_text(), "publisher.py")
    return found


class Bench:
    """brokers: those that the configurations name. flash: of the board, when it was made ready."""

    def __init__(self, brokers):
        self.brokers = brokers
        first = Board(filesystem.pack(application(brokers)))
        copies.staged(_stop_when_ready, first, first.switch_on)  # it makes its journal
        self.flash = first.snapshot()
        self._blocks = [self.flash[at : at + BLOCK] for at in range(0, FLASH_SIZE, BLOCK)]
        self._board = Board({0: self.flash})
        copies.staged(_stop_when_ready, self._board, self._board.switch_on)
        if self._board.snapshot() != self.flash:
            raise RuntimeError("getting ready changes the flash: then no copy may go on with another")

    def copy(self, work, task, seconds, flash=None):
        """Runs coroutine work(board) with a copy that does `task`, and whose journal is as in `flash`. Returns what
        work returns; raises what copies.forked() raises."""
        flash = flash or self.flash
        if self._outside_journal(flash) != self._outside_journal(self.flash):
            raise RuntimeError("the file system is another now: this board must boot from cold")

        def start():
            self._board.console.clear()
            self._board.give_task(task)
            self._board.write({0: flash})
            self._board.thaw()

        return copies.forked(work, self._board, seconds, start)

    def _outside_journal(self, flash):
        blocks = [flash[at : at + BLOCK] for at in range(0, FLASH_SIZE, BLOCK)]
        return [block for block, then in zip(blocks, self._blocks, strict=True) if not then.startswith(b"IFJ")]
