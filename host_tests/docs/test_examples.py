"""Each example runs, with a broker, and does what it says."""

import socket

import pytest

from host_tests.docs.pages import EXAMPLES
from host_tests.docs.reader import ReplyingBroker, run_program, running
from tools.peers.daemon import held_port

RUNTIMES = "micropython-x64"
MORE_RUNTIMES = "cpython"
TEXTS = {path.stem: path.read_text() for path in EXAMPLES}
ASLEEP = 75  # exit status of the unix board for deep sleep


def _published(broker):
    """[(topic without the device, payload)] of the messages that arrived."""
    return [(p.topic.split("/", 1)[1], p.payload) for p in broker.arrived]


def test_every_example_is_tested_and_listed():
    listed = (EXAMPLES[0].parent / "README.md").read_text()
    for path in EXAMPLES:
        assert path.stem in ADDED or "test_" + path.stem in globals(), path.name
        assert f"]({path.name})" in listed, path.name


SERVO = """
from scratch import Folder
from test_actuators import App

with Folder() as folder:
    app = App(folder, [{"driver": "servo", "pin": 16, "name": "flap"}])
    for text in ("open", "90", "closed"):
        app.command("flap", text)
print(app.published[-1], app.errors)
"""
RULES = """
from scratch import Folder
from test_actuators import App

with Folder() as folder:
    app = App(folder, [{"driver": "switch", "pin": 15, "name": "relay"}])
    from rules import on_reading

    for value in (29.5, 31.5, 32, 28):
        on_reading("attic", value)
        on_reading("temperature", 99)
print(app.published)
"""
LM75 = """
from hardware import works

print(works({"driver": "lm75", "sda": 4, "scl": 5, "name": "cellar"}))
"""
# For each file that a device takes beside its firmware, a program that uses it, and what that prints.
ADDED = {
    "sensor_lm75": (LM75, "[('cellar', 'Cel', 21.5)]"),
    "actuator_servo": (
        SERVO,
        "pin 16 = 500 us\npin 16 = 2500 us\npin 16 = 1500 us\npin 16 = 500 us\n('actuator/flap', {'state': 0}) {}",
    ),
    "rules": (
        RULES,
        "pin 15 = True\npin 15 = False\n[('actuator/relay', {'state': 'on'}), ('actuator/relay', {'state': 'off'})]",
    ),
}


@pytest.mark.parametrize("name", ADDED)
def test_added_to_the_firmware(runtime, tmp_path, name):
    program, printed = ADDED[name]
    (tmp_path / f"{name}.py").write_text(TEXTS[name])
    with ReplyingBroker() as broker:
        found = run_program(runtime, tmp_path, broker, "import sys\nsys.path.append('')\n" + program)
    assert found == (printed + "\n", 0)


def test_button(runtime, tmp_path):
    with ReplyingBroker() as broker:
        run_program(runtime, tmp_path, broker, TEXTS["button"], lambda: broker.idle and broker.arrived)
    assert _published(broker) == [("press", b"1")]


def test_relay(runtime, tmp_path):
    with ReplyingBroker({"attic-1/set": b"on"}) as broker:
        printed, _ = run_program(runtime, tmp_path, broker, TEXTS["relay"], lambda: broker.idle and broker.arrived)
    assert printed == "pin 15 = 1\n"
    assert _published(broker) == [("state", b"on")]
    assert broker.arrived[0].retain


def test_deep_sleep(runtime, tmp_path, nobody):
    """Two wakes without a broker, a third one with it."""
    with ReplyingBroker() as away:
        away.port = nobody
        for _ in range(2):
            printed, status = run_program(runtime, tmp_path, away, TEXTS["deep_sleep"])
            assert (printed[:14], status) == ("not delivered:", ASLEEP)
    with ReplyingBroker() as broker:
        printed, status = run_program(runtime, tmp_path, broker, TEXTS["deep_sleep"])
    assert (printed, status) == ("", ASLEEP)
    assert _published(broker) == 3 * [("battery", b"3.71")]


def test_tasks(runtime, tmp_path):
    def answered():
        return broker.idle and ("answer", b"1") in _published(broker) and len(broker.arrived) > 1

    with ReplyingBroker() as broker:
        run_program(runtime, tmp_path, broker, TEXTS["tasks"], answered)
    assert "load" in dict(_published(broker))


def test_gateway(runtime, tmp_path):
    with ReplyingBroker() as broker, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        device.bind(("127.0.0.1", 0))
        port = held_port(device, socket.SOCK_DGRAM)
        shared = "inputs.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\ninputs.bind("
        text = TEXTS["gateway"].replace("5005", str(port)).replace("inputs.bind(", shared)
        with running(runtime, tmp_path, broker, text) as (_, output):
            assert broker.wait_for(lambda: broker.sessions), output
            odd = (b"\xff\xfe\x01 x", b"", b"one", b"one two three", b"+ 1", b"a\0b 1", b"\x1b[2J 1", bytes(512))
            for datagram in (*odd, b"cellar 12.5"):
                device.sendto(datagram, ("127.0.0.1", port))
            assert broker.wait_for(lambda: broker.arrived), output
    assert [(p.topic, p.payload, p.qos) for p in broker.arrived] == [("house/cellar", b"12.5", 1)]
