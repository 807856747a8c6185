"""Fixtures: applications on a fake board in RAM, the firmware as a process, and a broker."""

import json
import subprocess
import time

import pytest

import log
import ram_board
from assemble import kind
from config import check
from host_tests.absent import interpreter
from host_tests.broker import Automatic
from host_tests.clients import automatic, clock, cut_power, virtual  # noqa: F401 (fixtures)
from host_tests.waiting import wait_for
from inflight import Client, Journal, RamFlash
from inflight_tools.fleet.lines.gathered import expanded
from node import will
from tools.runtimes import device_run

_PATIENCE_S = 100


class Pin:
    """A pin that falls to 0 with the power. `level`: of the only pin there is."""

    OUT = 3
    level = 0

    def __init__(self, number, *how, value):
        Pin.level = int(value)

    def value(self, level):
        Pin.level = int(level)


class Board(ram_board.Board):
    """One whose configuration is a Path."""

    @property
    def configuration(self):
        return json.loads(self.path.read_text())


class Counting(Board):
    """Its readings are numbered."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def sensors(self):
        self.count += 1
        yield "count", None, self.count


def packs(message):
    """The bodies that a message stands for: gathered readings as a pack for each."""
    line = {"topic": message.topic, "text": message.payload.decode()}
    return [json.loads(json.loads(one)["text"]) for one in expanded(json.dumps(line, separators=(",", ":")).encode())]


def gathered(broker):
    """{number: time and readings} of all messages of telemetry, as a pipeline reads them; what dates readings not."""
    found = {}
    for message in broker.arrived:
        for pack in packs(message) if message.topic.endswith("/telemetry") else ():
            if "boot" in pack[0]:
                continue
            values = {record["n"]: record.get("v", record.get("vb")) for record in pack if "n" in record}
            assert found.setdefault(pack[0]["seq"], (pack[0]["bt"], values)) == (pack[0]["bt"], values)
    return found


class ShortRuns(Client):
    """A client that returns soon from run_for(): a test sees what has happened before the application's next turn is
    due."""

    most_ms = 10

    def run_for(self, ms):
        super().run_for(min(ms, self.most_ms))


class Maker:
    """make(port, ...) is an App, or a SleepingApp if sleep_ms is given. `board`: a new Board by default. Other
    arguments are fields of its configuration."""

    def __init__(self, folder):
        self.apps = []
        self.backoff_ms = 0, 0
        self.path = folder / "config.json"

    def __call__(self, port, flash=None, sources=None, board=None, began=None, crash=None, **fields):
        given = {"host": "127.0.0.1", "port": port, "interval_ms": 100, **fields}
        self.path.write_text(json.dumps(given))
        config = check(given, "dev")
        flash = flash or RamFlash(8, 4096)
        journal = Journal(flash)
        application = kind(config)
        board = board or Board()
        client = ShortRuns(
            config.host,
            config.device,
            journal,
            port=config.port,
            will=will(config),
            protocol_level=config.protocol_level,
            slept=application.slept(board, config),
            keepalive=0,
            when_full=config.when_full,
            timeout_ms=min(_PATIENCE_S * 1000, application.timeout(config)),
            backoff_ms=self.backoff_ms,
            reconnect=application.RECONNECT,
            on_error=log.report,
        )
        board.path = self.path
        log.text, log.waiting = "", False
        self.apps.append(application(board, config, journal, client, flash, sources, began, crash))
        return self.apps[-1]


@pytest.fixture
def make(tmp_path):
    maker = Maker(tmp_path)
    yield maker
    for app in maker.apps:
        cut_power(app.client)


@pytest.fixture
def broker():
    with Automatic() as broker:
        yield broker


@pytest.fixture
def published(broker):
    """published(topic): the bodies of the messages to this topic of the device; published(): of all. Of a SenML pack
    its first record, of gathered readings that of each; the topic `dating` stands for packs that date readings, which
    `telemetry` leaves out."""

    def bodies(topic=""):
        found = [(m.topic.split("/", 2)[2], body) for m in list(broker.arrived) for body in packs(m)]
        found = [(to, body[0] if isinstance(body, list) else body) for to, body in found]
        return [body for to, body in found if not topic or topic == ("dating" if "boot" in body else to)]

    return bodies


@pytest.fixture
def until():
    """until(app, condition) runs the application until the condition is true; fails after so long that a busy machine
    would have done it."""

    def run(app, condition):
        end = time.monotonic() + _PATIENCE_S
        while not condition():
            assert time.monotonic() < end, f"did not happen in {_PATIENCE_S} s"
            app.step()
        return condition()

    return run


class Machine:
    """A unix board in folder `home`. Each start runs the firmware as a process."""

    def __init__(self, home, found):
        self.home, self.found = home, found
        self.process = None
        self.log = home / "accepted"
        self.environment = {}
        self.search = []  # folders of modules beside the application's
        self.stdin = None

    def configure(self, **fields):
        (self.home / "config.json").write_text(json.dumps({"host": "127.0.0.1", "interval_ms": 100, **fields}))

    def start(self, *program):
        """program: instead of the application, arguments of the interpreter."""
        own = {"INFLIGHT_HOME": self.home, "INFLIGHT_DEVICE_ID": "box", "INFLIGHT_ACCEPTED_LOG": self.log}
        environment = device_run.application_environment(self.found)
        for name in {"MICROPYPATH", "PYTHONPATH"} & environment.keys():
            environment[name] = ":".join([environment[name], *self.search])
        self.process = subprocess.Popen(
            [*self.found.command("200k"), *(program or ("-m", "main"))],
            env={**environment, **own, **self.environment},
            stdin=self.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def kill(self):
        self.process.kill()
        return self.end()

    def end(self):
        """Waits for the process. Returns its output and its exit status."""
        output = self.process.communicate(timeout=_PATIENCE_S)[0].decode()
        return output, self.process.returncode

    def accepted(self):
        """[(sequence number, QoS, topic)] of the messages that publish() accepted. Ignores an incomplete line."""
        lines = self.log.read_text().split("\n")[:-1] if self.log.exists() else []
        return [(int(seq), int(qos), topic) for seq, qos, topic in map(str.split, lines)]

    def check_arrived(self, broker, bodies, least):
        """More than `least` messages were accepted, all arrived, and none of QoS 2 twice. The journal's numbers have no
        gap, whatever was being written when the power was cut."""
        accepted, arrived = {seq for seq, _, _ in self.accepted()}, {body["seq"] for body in bodies}
        assert len(accepted) > least and not accepted - arrived
        assert sorted(arrived) == list(range(max(arrived) + 1))
        payloads = [message.payload for message in broker.arrived]
        assert not [m for m in broker.arrived if m.qos == 2 and payloads.count(m.payload) > 1]

    def wait_for(self, what, n=1):
        """Waits until what() has n elements; fails after so long that a busy machine would have done it."""

        def happened():
            assert len(what()) >= n or self.process.poll() is None, self.end()
            return len(what()) >= n

        wait_for(happened, _PATIENCE_S, self.kill)


@pytest.fixture(params=["cpython", "micropython-x86"])
def machine(request, tmp_path):
    found = interpreter(request.param)
    machine = Machine(tmp_path, found)
    yield machine
    if machine.process and machine.process.poll() is None:
        machine.kill()
