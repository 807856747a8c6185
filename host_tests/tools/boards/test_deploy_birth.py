"""`inflight board deploy` until the birth message, with a fake board and a real broker."""

import json
import shutil
import socketserver
import threading

import paho.mqtt.publish as publish
import pytest

from host_tests.tools.boards.standin import StandIn
from host_tests.tools.command import inflight
from inflight_tools.boards import deploy as tool
from inflight_tools.boards.device.link import DeviceError
from inflight_tools.boards.device.watch import Births, Watch
from inflight_tools.broker import broker_of

WORKER = "births"

SECRET = "hunter2"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The flash of a board with the application, and with a configuration without a reachable broker."""
    folder = tmp_path_factory.mktemp("installed")
    with StandIn(folder, blocks=256) as board:
        tool.deploy("unix", board.port, {"/config.json": b'{"host": "127.0.0.1", "port": 1}'})
    return folder


@pytest.fixture
def board(tmp_path, installed):
    shutil.copytree(installed, tmp_path, dirs_exist_ok=True)
    with StandIn(tmp_path, usb=True) as board:
        yield board


def configure(folder, port, **fields):
    path = folder / "config.json"
    fields = {"host": "127.0.0.1", "port": port, "user": "me", "password": SECRET, "root": "test", **fields}
    path.write_text(json.dumps(fields))
    return path


def command(*options):
    done = inflight("board", "deploy", "--board", "unix", *options)
    assert SECRET not in done.output
    return done


def test_deploy_waits_for_a_new_birth(tmp_path, broker, board):
    stale = json.dumps({"state": "online", "firmware": "0.0.1", "seq": 7, "epoch": 7})
    publish.single("test/box/status", stale, qos=1, retain=True, hostname="127.0.0.1", port=broker.port)
    words = ("--port", board.port, "--config", configure(tmp_path, broker.port), "--wait", 30)
    done = command(*words)
    assert done.exit_code == 0 and "/config.json" in done.stdout, done.output
    assert done.stdout.splitlines()[-1].startswith("online, firmware ") and "0.0.1" not in done.stdout
    done = command(*words, "--json")
    assert done.exit_code == 0 and "The board starts" in done.stderr, done.output
    result = json.loads(done.stdout)
    assert result["written"] == result["removed"] == [] and result["unchanged"] > 20
    assert result["birth"]["state"] == "online" and result["birth"]["firmware"] != "0.0.1"


class Nonsense(socketserver.BaseRequestHandler):
    """A broker that does not speak MQTT."""

    def handle(self):
        self.request.recv(1)
        self.request.sendall(b"\xff" * 8)


def test_without_a_birth_the_console_is_shown(tmp_path, broker, board):
    # The board uses another broker, which does not speak MQTT.
    with socketserver.TCPServer(("127.0.0.1", 0), Nonsense) as wrong:
        threading.Thread(target=wrong.serve_forever, daemon=True).start()
        config = configure(tmp_path, wrong.server_address[1])
        done = command("--port", board.port, "--config", config, "--broker", f"127.0.0.1:{broker.port}", "--wait", 8)
        wrong.shutdown()
    assert done.exit_code == 1
    head, *console = done.stdout[done.stdout.index("FAILED") :].splitlines()
    missing = f"FAILED: no birth message at test/box/status on 127.0.0.1:{broker.port} within 8 s: look at"
    assert head.startswith(missing)
    assert any("inflight: ProtocolError" in line for line in console), console


def test_an_unreachable_broker_is_reported_before_anything_is_written(tmp_path, board, nobody):
    words = ("--port", board.port, "--config", configure(tmp_path, nobody))
    done = command(*words)
    assert done.exit_code == 1
    assert "this computer does not reach the broker" in done.stdout and "--wait 0 not to wait" in done.stdout
    assert not board.received
    assert command(*words, "--wait", 0).exit_code == 0


def status(state="online", seq=1, epoch=5):
    return json.dumps({"state": state, "seq": seq, "epoch": epoch, "firmware": "1"})


def test_only_a_new_message_after_the_reset_is_a_birth():
    births = Births()
    births.message("box", "status", status(seq=1), True)
    births.arm()
    births.message("box", "status", status(seq=1), False)  # again
    births.message("box", "status", '{"state": "offline", "firmware": "1"}', False)  # the will
    births.message("box", "status", status("offline", seq=2), False)
    for payload in ("?", "[" * 100_000, '{"epoch": [], "seq": 9, "state": "online"}'):
        births.message("box", "status", payload, False)
    assert births.wait(0) is None
    births.message("box", "status", status(seq=3), False)
    assert births.wait(0)["seq"] == 3
    births = Births()
    births.arm()
    births.message("box", "status", status("asleep", epoch=6), True)
    assert births.wait(0)["state"] == "asleep"


def test_address_of_the_broker():
    for fields, named, place in (
        ({}, None, "h:1883"),
        ({"port": 99}, None, "h:99"),
        ({"port": 99}, "other", "other:99"),
        ({"port": 99}, "other:7", "other:7"),
    ):
        found = broker_of({"host": "h", "user": "me", "password": SECRET, **fields}, named)
        assert (found.place, found.root) == (place, "inflight") and SECRET not in repr(found)
    with pytest.raises(ValueError, match="--broker other:x: write a host, or host:port"):
        broker_of({"host": "h"}, "other:x")


def test_a_broker_that_refuses_us(mosquitto):
    broker = mosquitto("allow_anonymous false")
    with (
        Watch(broker_of({"host": "127.0.0.1", "port": broker.port}), lambda *message: None) as watch,
        pytest.raises(DeviceError, match="[Nn]ot authorized"),
    ):
        watch.reach(3)
