"""Tests of the demonstration: a small run, its counters, and the failures that it reports."""

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest
from rich.console import Console

from host_tests.broker import PATIENCE_S
from inflight_tools.fleet.spark.java import java_home
from tools.demo.__main__ import check_tables, result
from tools.demo.downstream import _Program
from tools.demo.sensors import Fleet, best_runtime
from tools.demo.subscriber import Subscriber, number
from tools.patience import Patience
from tools.peers.mosquitto import Mosquitto
from tools.peers.network import Network, _Frames
from tools.runtimes import program

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")


def _fleet_needs():
    try:
        best_runtime()
        program("mosquitto")
    except RuntimeError as e:
        return str(e)
    return None


def _needs():
    if _fleet_needs():
        return _fleet_needs()
    if not importlib.util.find_spec("pyspark") or not java_home():
        return "Spark is not installed: run `make setup-pipeline`"
    return None


def _run(*options):
    command = [sys.executable, "-m", "tools.demo", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=840)


def _table(text):
    """{first cell: the other cells} of the tables in the text."""
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    return {name: cells for name, *cells in lines}


@pytest.mark.timeout(1800)
@pytest.mark.skipif(_needs() is not None, reason=str(_needs()))
def test_a_small_fleet_loses_nothing(tmp_path):
    page = tmp_path / "report.html"
    done = _run("--devices", "4", "--duration", "6", "--seed", "1", "--report", page)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing was lost" in done.stdout
    received, reported = (_table(part) for part in done.stdout.split("Figures of the report"))
    rows = {name: cells[:2] for name, cells in received.items()}
    assert [int(n) for n in rows["lost"]] == [0, 0]
    assert int(rows["duplicated"][1]) == 0
    assert all(int(n) > 0 for n in rows["accepted"])
    assert rows["accepted"] == rows["delivered"]
    assert "power cuts survived: 10" in done.stdout
    places = ("still in a journal", "acknowledged, on the way", "acknowledged, lost", "given up by a device")
    assert {reported[name][0] for name in (*places, "duplicate rows", "dead letters")} == {"0"}
    assert int(reported["in the tables"][0]) >= sum(map(int, rows["accepted"]))
    assert "collector killed: 2" in done.stdout
    assert "Nothing was lost" in page.read_text()


@pytest.fixture
def offline(tmp_path):
    """(fleet, network, subscriber); the sensors have accepted messages and were never online."""
    with (
        Mosquitto(tmp_path / "broker") as broker,
        Network(broker.port) as network,
        Subscriber(broker.port) as subscriber,
    ):
        network.cut()
        with Fleet(tmp_path, [(network.port, 1), (network.port, 2)], 100, 1) as fleet:
            while not all(len(sensor.accepted()) > 5 for sensor in fleet.sensors):
                time.sleep(0.01)
            yield fleet, network, subscriber


@pytest.mark.skipif(_fleet_needs() is not None, reason=str(_fleet_needs()))
def test_drain_delivers_the_journals_and_accepts_no_more(offline):
    fleet, network, subscriber = offline
    network.join()
    numbers = fleet.drain(120, subscriber.total)
    assert numbers.keys() == {sensor.name for sensor in fleet.sensors}
    delivered = {(name, seq) for name, next_seq in numbers.items() for seq in range(next_seq)}
    assert delivered >= {(name, seq) for name, seq, _ in fleet.accepted()}
    while not delivered <= set(subscriber.counts()):  # the broker has them, and delivers them
        time.sleep(0.01)
    assert set(subscriber.counts()) == delivered
    assert fleet.deaths == 0


@pytest.mark.skipif(_fleet_needs() is not None, reason=str(_fleet_needs()))
def test_a_sensor_that_cannot_deliver_is_named(offline):
    fleet, _, subscriber = offline
    with pytest.raises(RuntimeError, match="sensor000 does not deliver the messages in its journal"):
        fleet.drain(1, subscriber.total)


def test_patience_begins_anew_with_progress(monkeypatch):
    now = [0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    patience = Patience(10)
    for now[0] in range(0, 100, 10):
        assert not patience.over(now[0])
    now[0] += 10
    assert not patience.over(90)
    now[0] += 1
    assert patience.over(90)


def test_a_network_that_was_joined_stays_up():
    with socket.create_server(("127.0.0.1", 0)) as server, Network(server.getsockname()[1]) as network:
        server.settimeout(240)
        running, go_on = threading.Event(), threading.Event()
        network._loop.call_soon_threadsafe(lambda: (running.set(), go_on.wait()))  # delays cut() and join()
        running.wait()
        network.cut()
        network.join()
        go_on.set()
        with socket.create_connection(("127.0.0.1", network.port)), server.accept()[0]:
            pass  # forwarded, not reset


def test_an_endless_program_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("tools.demo.downstream._PATIENCE_S", 0.1)
    endless = tmp_path / "endless.py"
    endless.write_text("import time\nwhile True:\n    time.sleep(1)\n")
    program = _Program(tmp_path / "endless.log", endless)
    with pytest.raises(RuntimeError, match="endless: no end in 0.1 s"):
        program.run()
    assert program.process.poll() is not None


@pytest.mark.parametrize("qos", ["0", "3", "", "1,x"])
def test_qos_that_promises_nothing_is_refused(qos):
    done = _run("--qos", qos)
    assert done.returncode == 2
    assert "QoS 0 messages may be lost" in done.stderr


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_repetitions_are_counted_in_chunks_of_any_size(size):
    repeated = Counter()
    stream = (
        bytes((0x10, 3))
        + b"abc"
        + bytes((0x32, 4))
        + b"\x00\x01t1"
        + bytes((0xC0, 0))
        + bytes((0x3A, 0x81, 0x01))
        + b"x" * 129
        + bytes((0x3C, 2))
        + b"xx"
        + bytes((0x30, 1))
        + b"x"
    )
    frames = _Frames(repeated)
    for at in range(0, len(stream), size):
        frames.feed(stream[at : at + size])
    assert +repeated == {1: 1, 2: 1}


def test_numbers_of_messages():
    pack = [{"bn": "urn:dev:mac:s1:", "seq": 5, "epoch": 9, "n": "load", "v": 1}, {"n": "memory", "v": 2}]
    assert number("inflight/s1/telemetry", json.dumps(pack)) == ("s1", 9, 5)
    assert number("inflight/s1/health", b'{"seq": 6, "epoch": 9}') == ("s1", 9, 6)
    assert number("inflight/s1/status", b'{"state": "offline"}') is None
    for bad in (b"", b"[]", b"\xff", b"[1]"):
        with pytest.raises((ValueError, KeyError, IndexError, TypeError)):
            number("inflight/s1/telemetry", bad)


def _judge(accepted, seen, **oddities):
    """Problems that the demonstration reports if the fleet accepted and the subscriber saw these messages."""
    fleet = SimpleNamespace(cuts=1, deaths=oddities.get("deaths", 0))
    network = SimpleNamespace(cuts=1, repeated=Counter())
    epochs = oddities.get("epochs", {"s1": {9}})
    subscriber = SimpleNamespace(counts=lambda: Counter(seen), unreadable=oddities.get("unreadable", []), epochs=epochs)
    return result(Console(file=open(os.devnull, "w")), accepted, fleet, network, subscriber, 2)


def test_problems_of_a_run():
    accepted = {("s1", 0, 1), ("s1", 1, 2)}
    good = {("s1", 0): 2, ("s1", 1): 1}
    assert _judge(accepted, good) == []
    assert _judge(accepted, {("s1", 0): 1}) == ["1 messages of QoS 2 lost"]
    assert _judge(accepted, {("s1", 1): 1}) == ["1 messages of QoS 1 lost"]
    assert _judge(accepted, good | {("s1", 1): 2}) == ["1 messages of QoS 2 came twice"]
    assert _judge(set(), {}) == ["nothing was accepted"]
    assert _judge(accepted, good, deaths=1) == ["a sensor exited unexpectedly: see its console.log"]
    assert _judge(accepted, good, epochs={"s1": {9, 10}}) == ["a sensor lost its journal"]
    assert len(_judge(accepted, good, unreadable=[("t", b"?")])) == 1


def _check(raw, measurements, **fleet):
    """Problems that the demonstration reports with these rows, if s1 has accepted messages 0 and 1."""
    figures = ("before", "lost", "given_up", "on_way", "on_device", "guessed", "doubled", "dead_letters", "conflicts")
    facts = {"fleet": dict.fromkeys(figures, 0) | {"delivered": 2} | fleet}
    rows = [dict(zip(("device", "seq", "kind", "first"), row, strict=True)) for row in raw]
    places = [dict(zip(("device", "seq", "place"), row, strict=True)) for row in measurements]
    return check_tables({("s1", 0, 1), ("s1", 1, 2)}, facts, rows, places)


def test_problems_of_the_tables():
    raw = [("s1", 0, "telemetry", True), ("s1", 1, "health", True), ("s1", 1, "health", False)]
    raw.append(("s1", None, "status", True))  # a will
    rows = [("s1", 0, 0), ("s1", 0, 1)]
    assert _check(raw, rows) == []
    assert _check(raw[:1], rows) == ["1 messages that a device accepted have no row"]
    assert _check(raw + raw[:1], rows) == ["1 messages have two rows"]
    assert _check(raw, rows + rows[:1]) == ["1 measurements have two rows"]
    assert _check(raw, []) == ["1 packs have no measurements"]
    assert _check(raw, rows, delivered=1) == ["1 messages that the report does not count"]
    assert _check(raw, rows, before=2) == ["2 numbers before the report's first message"]
    assert _check(raw, rows, lost=1, doubled=2) == ["1 lost in the report", "2 doubled in the report"]


def test_sensor_without_a_configuration():
    done = subprocess.run([sys.executable, "-m", "tools.demo.sensor", "/nowhere.json"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "no file /nowhere.json" in done.stderr


def test_sensor_in_a_folder_with_names_of_modules(tmp_path):
    """It connects."""
    (tmp_path / "home").mkdir()
    (tmp_path / "main.py").write_text("raise SystemExit(1)")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        port = server.getsockname()[1]
        (tmp_path / "attic.json").write_text(json.dumps({"host": "127.0.0.1", "port": port, "ntp": False, "ha": True}))
        path = os.pathsep.join(sys.path)
        env = dict(os.environ, INFLIGHT_HOME=str(tmp_path / "flash"), PYTHONPATH=path, PYTHONSAFEPATH="1")
        argv = [sys.executable, "-m", "tools.demo.sensor", "attic.json"]
        sensor = subprocess.Popen(argv, cwd=tmp_path, env=env, start_new_session=True)
        try:
            connection, _ = server.accept()
            with connection:
                assert connection.recv(1) == b"\x10"  # CONNECT
        finally:
            os.killpg(sensor.pid, signal.SIGINT)
            sensor.wait(PATIENCE_S)
