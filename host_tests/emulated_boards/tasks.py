"""What an emulated board is told to do, and the brokers that it does it with."""

import re
from contextlib import ExitStack
from pathlib import Path

import trustme

from inflight_tools.boards.build.bundle import compile_mpy, deployed_name, files
from tools.peers.certificates import der, server_context
from tools.peers.mosquitto import Mosquitto
from tools.peers.tls_proxy import tls_proxy

# Tasks: a sensor with a configuration file of that number, QoS 0, or a publisher with that number as its name, which is
# connected or stays offline.
CUT, RESTART, DROP, TLS, WRONG_AUTHORITY, WRONG_NAME, SLEEP, CRASH, HANG = range(9)
PLAIN, PUBLISHER, OFFLINE = 999, 1000, 2000
CODE = Path(__file__).parent / "board"  # what runs on them
_SINCE_2000 = (-10_000, 1)  # days from now that certificates are good for: a board's clock may not be set yet


def text(source):
    """The text of a source in CODE, which names modules of the library as the table of loading does."""
    return re.sub(r"inflight(\.\w+)+", lambda found: deployed_name(found[0]), (CODE / f"{source}.py").read_text())


def module(name, source):
    """The file of module `name`, made of a source in CODE."""
    return {f"/lib/{name}.mpy": compile_mpy(text(source), f"{name}.py")}


def harness(board):
    """The module through which the programs in CODE are told what to do, and tell what happens."""
    return module("harness", f"harness_{board}")


class Brokers:
    """All that a sensor here may have to do with: a broker, TLS in front of it, as the board's `sensor` module calls it
    and by a name that it does not, and a broker that its test starts and stops."""

    def __init__(self, folder, sensor):
        self._sensor = sensor
        self.ca = trustme.CA()
        self.plain = Mosquitto(folder / "plain")
        self.frail = Mosquitto(folder / "frail")
        contexts = (server_context(self.ca, name, days=_SINCE_2000) for name in (sensor.TLS_HOST, "other.test"))
        self._tls, self._other = (tls_proxy(self.plain.port, context) for context in contexts)

    def __enter__(self):
        with ExitStack() as running:
            for one in (self.plain, self._tls, self._other):
                running.enter_context(one)
            self._running = running.pop_all()
        return self

    def __exit__(self, *what):
        self._running.close()

    def files(self):
        """The configurations, by the numbers of their tasks, and the certificates that they name."""
        often = {"interval_ms": 1000, "health_ms": 60_000}
        cut = {"qos": 2, "interval_ms": 200, "health_ms": 1000}
        secure = {"host": self._sensor.TLS_HOST, "tls_ca": "/ca.der", "interval_ms": 3000}
        sleeps = {"qos": 2, "sleep_ms": 4000, "health_ms": 4000, "awake_ms": 30_000}
        config = self._sensor.config
        configs = {
            CUT: config(self.plain.port, "sensor", **cut),
            RESTART: config(self.frail.port, "restart", qos=2, **often),
            DROP: config(self.plain.port, "drop", qos=2, **often),
            TLS: config(self._tls.port, "tls", **secure),
            WRONG_AUTHORITY: config(self._tls.port, "impostor", **secure | {"tls_ca": "/other.der"}),
            WRONG_NAME: config(self._other.port, "astray", **secure),
            SLEEP: config(self.plain.port, "sleeper", **sleeps),
            CRASH: config(self.plain.port, "crasher", **often),
            HANG: config(self.plain.port, "hanger", timeout_ms=2000, watchdog_ms=6000, **often),
        }
        found = {f"/{task}.json": content for task, content in configs.items()}
        return found | {"/ca.der": der(self.ca), "/other.der": der(trustme.CA())}

    def application(self):
        """All files of the board: the application as it is deployed, but for a main.py that does several tasks."""
        board = self._sensor.BOARD
        found = files(board) | self.files()
        found["/main.py"] = (CODE / "main.py").read_bytes()
        return found | module("publisher", "publisher") | harness(board)
