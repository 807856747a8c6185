"""Each example runs, with a broker, and does what it says."""

import socket

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
        assert "test_" + path.stem in globals(), path.name
        assert f"]({path.name})" in listed, path.name


def test_sensor_lm75(runtime, tmp_path):
    (tmp_path / "sensor_lm75.py").write_text(TEXTS["sensor_lm75"])
    program = (
        "import sys\nsys.path.append('')\nfrom hardware import works\n"
        "print(works({'driver': 'lm75', 'sda': 4, 'scl': 5, 'name': 'cellar'}))\n"
    )
    with ReplyingBroker() as broker:
        printed, status = run_program(runtime, tmp_path, broker, program)
    assert (printed.strip(), status) == ("[('cellar', 'Cel', 21.5)]", 0)


SERVO = """
import sys

sys.path.append("")
from scratch import Folder
from test_actuators import App

with Folder() as folder:
    app = App(folder, [{"driver": "servo", "pin": 16, "name": "flap"}])
    for text in ("open", "90", "closed"):
        app.command("flap", text)
print(app.published[-1], app.errors)
"""


def test_actuator_servo(runtime, tmp_path):
    (tmp_path / "actuator_servo.py").write_text(TEXTS["actuator_servo"])
    with ReplyingBroker() as broker:
        printed, status = run_program(runtime, tmp_path, broker, SERVO)
    states = "".join(f"pin 16 = {us} us\n" for us in (500, 2500, 1500, 500))
    assert (printed, status) == (f"{states}('actuator/flap', {{'state': 0}}) {{}}\n", 0)


RULES = """
import sys

sys.path.append("")
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


def test_rules(runtime, tmp_path):
    (tmp_path / "rules.py").write_text(TEXTS["rules"])
    with ReplyingBroker() as broker:
        printed, status = run_program(runtime, tmp_path, broker, RULES)
    pins, published = printed.rsplit("\n", 2)[:2]
    assert (pins, status) == ("pin 15 = True\npin 15 = False", 0)
    assert published == "[('actuator/relay', {'state': 'on'}), ('actuator/relay', {'state': 'off'})]"


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
