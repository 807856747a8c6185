"""A unix board that updates itself: its process, releases that work and others that do not, a mosquitto."""

import json
import os
import subprocess
import time

import pytest

from host_tests.absent import interpreter
from host_tests.processes import started
from host_tests.tools.fleet.collect.conftest import scripted  # noqa: F401 (a fixture)
from inflight_tools.boards.build.bundle import compile_mpy, modules, numbered
from inflight_tools.broker import Broker
from inflight_tools.update import keys
from inflight_tools.update.release import make
from inflight_tools.update.server import Server
from tools.demo.sensors import HEAP
from tools.runtimes.device_run import application

PATIENCE_S = 240
# What a release does wrong: text that is added to one of its modules.
FAULTS = {
    "crashes": ("start", "raise RuntimeError('a bug')"),
    "hangs": ("app", "def _hang(self):\n    while True:\n        pass\nApp.step = _hang"),
    "cannot connect": ("config", "_load = load\ndef load(*a):\n    c = _load(*a)\n    c.port = 1\n    return c"),
    "breaks a sensor": ("board", "def sensors():\n    yield 'load', '/', OSError(5, 'no answer')"),
}


@pytest.fixture(scope="session")
def texts():
    """{module: text} of the application for the unix board."""
    return modules("unix")


@pytest.fixture(scope="session")
def code():
    """The folder with the application that a cable brought."""
    return application()


@pytest.fixture(scope="session")
def key():
    """A private key."""
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(65537, keys.BITS)


@pytest.fixture(scope="session")
def release_of(texts, code, key):
    """release_of(number, fault=None, trial_s=1, **fields): a Release."""

    def build(number, fault=None, trial_s=1, signer=key, board="unix", mpy=6, accept=None):
        files = {str(path.relative_to(code)): path.read_bytes() for path in sorted(code.rglob("*.mpy"))}
        changed = {"node": numbered(texts["node"], number)}
        if fault:
            module, text = FAULTS[fault]
            changed[module] = f"{changed.get(module, texts[module])}\n{text}\n"
        files |= {f"{name}.mpy": compile_mpy(text, f"{name}.py") for name, text in changed.items()}
        if accept:
            files["keys"] = json.dumps([keys.public(accept)]).encode()
        return make(files, signer, number, board, trial_s, mpy)

    return build


class Device:
    """A unix board, supervised: its process is started again when it ends."""

    def __init__(self, name, home, code, argv, port, key, **fields):
        self.name, self.home = name, home
        self._code, self._argv = code, argv
        self.process = None
        self.starts = 0
        home.mkdir()
        config = {"host": "127.0.0.1", "port": port, "interval_ms": 100, "timeout_ms": 2000, "device": name}
        config |= {"update_keys": [keys.public(key)], "health_ms": 1000} | fields
        (home / "config.json").write_text(json.dumps(config))

    def step(self):
        """Starts it if it does not run."""
        if self.process is None or self.process.poll() is not None:
            env = dict(os.environ, MICROPYPATH=str(self._code), INFLIGHT_HOME=str(self.home))
            env |= {"INFLIGHT_DEVICE_ID": self.name, "INFLIGHT_ACCEPTED_LOG": str(self.home / "accepted")}
            with open(self.home / "console", "ab") as console:
                self.process = subprocess.Popen([*self._argv, "-m", "main"], env=env, stdout=console, stderr=console)
            self.starts += 1

    def kill(self, cause=None):
        """A power cut, or what else the supervisor noted as the cause of the reset."""
        if self.process:
            self.process.kill()
            self.process.wait()
            if cause:
                (self.home / "next-start").write_text(cause)

    def accepted(self):
        """{(sequence number, topic)} of the messages that publish() accepted."""
        log = self.home / "accepted"
        lines = log.read_text().split("\n")[:-1] if log.exists() else []
        return {(int(seq), topic) for seq, _, topic in map(str.split, lines)}

    @property
    def console(self):
        return (self.home / "console").read_text()


@pytest.fixture
def broker(mosquitto):
    return mosquitto()


@pytest.fixture
def server(broker):
    with Server(Broker("127.0.0.1", broker.port, "inflight", None, None, None, None)) as found:
        yield found


@pytest.fixture
def device_of(tmp_path, broker, code, key):
    """device_of(name, **fields of its configuration): a Device that is not started yet."""
    found = interpreter("micropython-x86")
    common = code, found.command(HEAP), broker.port, key
    with started(Device, Device.kill) as start:
        yield lambda name="box", **fields: start(name, tmp_path / name, *common, **fields)


@pytest.fixture
def events(server):
    """events(devices, until, each=None): runs supervised devices until until(event) for one of (device, kind, fields);
    each(event) sees all before. Returns all events so far, without repetitions."""
    seen = []
    numbers = set()

    def run(devices, until, each=lambda event: None):
        end = time.monotonic() + PATIENCE_S
        while True:
            for device in devices:
                device.step()
            while not server.events.empty():
                device, _, fields = event = server.events.get()
                number = device, fields.get("seq"), fields.get("epoch")
                if "seq" in fields and number in numbers:
                    continue
                numbers.add(number)
                seen.append(event)
                each(event)
                if until(seen[-1]):
                    return seen
            assert time.monotonic() < end, (seen[-5:], [device.console[-2000:] for device in devices])
            time.sleep(0.005)

    return run
