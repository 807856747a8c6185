"""`monitor`: the console of a board, its messages at the broker, and both in one stream."""

import json
import re
import signal
import subprocess

import paho.mqtt.publish as publish
import pytest

from host_tests.processes import INFLIGHT
from host_tests.tools.boards.standin import StandIn
from inflight_tools.boards.device.link import Link
from inflight_tools.boards.monitor import describe, readings

HEALTH = {"firmware": "1", "heap": 120000, "journal": {"live": 0, "used": 90}, "errors": {}, "counters": {"resent": 2}}
# Prints a number that is different after each start.
PROGRAM = b"""
import os, time
start = os.urandom(4).hex()
while True:
    print("start", start)
    time.sleep(0.05)
"""


class Monitor:
    def __init__(self, *options):
        command = list(map(str, [*INFLIGHT, "board", "monitor", *options]))
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def __enter__(self):
        return self

    def until(self, pattern):
        """Returns the next line that contains `pattern`."""
        for line in self._process.stdout:
            if re.search(pattern, line):
                return line
        raise AssertionError(f"it ended before {pattern}")

    def end(self):
        self._process.send_signal(signal.SIGINT)
        return self._process.communicate(timeout=240)[0], self._process.returncode

    def __exit__(self, *_):
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def board(tmp_path):
    with StandIn(tmp_path, usb=True) as board:
        with Link(board.port) as link:
            link.put({"/main.py": PROGRAM})
        yield board


def configure(folder, broker, **fields):
    path = folder / "config.json"
    path.write_text(json.dumps({"host": "127.0.0.1", "port": broker.port, "root": "test", **fields}))
    return path


def send(broker, kind, fields, device="box"):
    publish.single(f"test/{device}/{kind}", json.dumps(fields), qos=1, hostname="127.0.0.1", port=broker.port)


def test_the_console_is_shown_without_sending_anything_to_the_board(board):
    board.received.clear()
    starts = board.starts
    with Monitor("--port", board.port) as monitor:
        assert re.match(r"\d\d:\d\d:\d\d  console +start \w+$", monitor.until("start"))
        assert monitor.end()[1] == 0
    assert not board.received and board.starts == starts


def test_a_board_that_is_reset_comes_back(board):
    with Monitor("--port", board.port) as monitor:
        first = monitor.until("start").split()[-1]
        board.reset()
        monitor.until("is gone: waiting until it is back")
        monitor.until(f"start (?!{first})")


def pack(*records, **base):
    return json.dumps([{"bn": "urn:dev:mac:box:", "seq": 1, "epoch": 2, **base, **records[0]}, *records[1:]]).encode()


MEMORY = {"bt": 0, "n": "memory", "u": "B", "v": 24_000_000_000.0}, {"n": "load", "u": "/", "v": 0.53}
ATTIC = {"bt": 0, "n": "attic", "u": "Cel", "v": 21.5}, {"n": "door", "vb": True}
SHOWN = [  # (topic, fields, what is shown)
    ("health", HEALTH, "health firmware=1 heap=120000 journal.used=90 counters.resent=2"),
    ("status", {"state": "online", "seq": 9}, "status state=online seq=9"),
    ("telemetry", json.loads(pack(*ATTIC)), "telemetry attic=21.5 Cel door=true"),
    ("telemetry", json.loads(pack(*MEMORY)), "telemetry memory=24000000000 B load=0.53"),
    ("reply/ping", {"ok": True, "echo": "hello", "up": 7}, "reply ping ok echo=hello up=7"),
    ("reply/actuator/pump", {"ok": False, "error": "write on"}, "reply actuator/pump refused error=write on"),
    ("actuator/pump", {"state": "on"}, "actuator pump state=on"),
]


def test_messages_at_the_broker(tmp_path, broker):
    with Monitor("--config", configure(tmp_path, broker, device="box")) as monitor:
        monitor.until("connected")
        send(broker, "status", {"state": "offline"}, "another")
        send(broker, "want", {"state": "no"})
        for topic, fields, shown in SHOWN:
            send(broker, topic, fields)
            assert monitor.until(rf"  {shown.split()[0]} ").split()[1:] == shown.split()


def test_what_happens_to_the_broker(tmp_path, broker):
    with Monitor("--config", configure(tmp_path, broker)) as monitor:
        monitor.until("connected")
        broker.stop()
        assert "the connection is lost" in monitor.until("  monitor ")
        assert "Connection refused" in monitor.until("  monitor ")
        broker.start()
        assert "connected" in monitor.until("  monitor ")


def test_how_readings_are_shown():
    now = 1_790_000_000
    taken = {"bt": now - 3600, "n": "a", "u": "V", "v": 3.3000001}
    assert readings(pack(taken, {"n": "b", "vs": "up"}), now) == ["a=3.3 V  b=up  (taken 2026-09-21 13:13:20Z)"]
    assert readings(pack(taken | {"bt": now - 2, "v": 7}), now) == ["a=7 V"]
    gathered = {"bt": now - 70, "seq": 1, "epoch": 2, "n": ["a"], "u": ["V"], "rows": [[0, 1], [5, None], [70, 3]]}
    at = ["2026-09-21 14:12:10Z", "2026-09-21 14:13:20Z"]
    for start, times in (({}, at), ({"bt": 0, "up": 8.5}, ["8.5 s after the boot", "78.5 s after the boot"])):
        shown = readings(json.dumps(gathered | start, separators=(",", ":")).encode(), now)
        assert shown == [f"a={value} V  (taken {when})" for value, when in zip((1, 3), times, strict=True)]
    for payload in (b"[]", b"{}", b"21.5", b"\xff"):
        with pytest.raises(ValueError):
            readings(payload, now)
        assert describe(payload, "telemetry") == [payload.decode(errors="replace")]
    assert describe(b'{"a": {"b": {"c": 1}, "d": 0}, "e": null, "f": "x"}') == ["a.b.c=1 f=x"]
    for payload in (b"not JSON", b"[1]", b"[" * 100_000):
        assert describe(payload) == [payload.decode()]


def test_console_and_messages_of_several_devices(tmp_path, broker, board):
    config = configure(tmp_path, broker)  # no device: messages of all
    with Monitor("--port", board.port, "--config", config) as monitor:
        monitor.until("connected")
        monitor.until(r"console +start")
        send(broker, "status", {"state": "online"}, "attic")
        assert monitor.until("status").split()[1:] == ["status", "attic:", "state=online"]
        monitor.until(r"console +start")


def test_missing_port():
    with Monitor("--port", "/dev/ttyNONE") as monitor:
        assert "no port /dev/ttyNONE: plug the board in" in monitor.until("monitor|FAILED")
