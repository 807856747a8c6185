"""docs/start.md: its broker, its commands to a device, its power cut, with the firmware on the unix board."""

import contextlib
import json
import shlex
import socket
import subprocess

import pytest

from host_tests.docs.pages import CHECKOUT, blocks
from host_tests.docs.reader import LIMIT_S
from host_tests.processes import INFLIGHT
from host_tests.waiting import wait_for
from tools.demo.sensors import Sensor, best_runtime
from tools.peers import mosquitto
from tools.peers.subscriber import Subscriber
from tools.runtimes.device_run import application

PAGE = CHECKOUT / "docs/start.md"
BROKER = next(block.text for block in blocks("text") if block.page == PAGE).splitlines()
LINES = [line for block in blocks("sh") if block.page == PAGE for line in block.text.splitlines()]
SETTINGS = json.loads(next(block.text for block in blocks("json") if block.page == PAGE))
COMMAND = next(shlex.split(line)[1:] for line in LINES if line.startswith("inflight device set "))
WITNESS = next(shlex.split(line) for line in LINES if line.startswith("mosquitto_sub "))


@pytest.fixture
def broker(tmp_path):
    """mosquitto with the lines of the page, on another port."""
    if reason := mosquitto.unavailable():
        pytest.skip(reason)
    with mosquitto.Mosquitto(tmp_path / "broker") as made:
        file = made.folder / "mosquitto.conf"
        names = {line.split()[0] for line in BROKER}
        others = [line for line in file.read_text().splitlines() if line.split()[0] not in names]
        made.stop()
        file.write_text("\n".join([*others, *BROKER]).replace("listener 1883", f"listener {made.port}") + "\n")
        yield made.start()


def _numbers(messages):
    """The sequence numbers of what arrived. A message of several readings stands for one message each."""
    found = set()
    for message in messages:
        fields = message.fields
        if "seq" in fields:
            found.update(range(fields["seq"], fields["seq"] + len(fields.get("rows", [0]))))
    return found


@contextlib.contextmanager
def monitor(folder, port):
    """`inflight board monitor` with the settings of the page, for the broker here. Yields a function that returns what
    it has shown."""
    (folder / "broker.json").write_text(json.dumps(SETTINGS | {"host": "127.0.0.1", "port": port}))
    command = [*INFLIGHT, "board", "monitor"]
    with (folder / "shown").open("wb") as shown:
        process = subprocess.Popen([*command, "--config", "broker.json"], cwd=folder, stdout=shown, stderr=shown)
        try:
            yield (folder / "shown").read_text
        finally:
            process.kill()
            process.wait()


def test_each_message_arrives_after_an_outage_and_a_power_cut(broker, tmp_path):
    with socket.create_connection(("127.0.0.2", broker.port)):  # without the lines: 127.0.0.1 alone
        pass
    assert "-c" in WITNESS  # a session
    topic = WITNESS[WITNESS.index("-t") + 1]
    with Subscriber(broker.port, topic) as subscriber, monitor(tmp_path, broker.port) as shown:
        sensor = Sensor("attic-1", tmp_path / "attic-1", application(), best_runtime(), broker.port, 1, 100)
        sensor.on()
        try:
            wait_for(lambda: "telemetry  attic-1: " in shown(), LIMIT_S, shown)
            with subprocess.Popen([*INFLIGHT, *COMMAND, "--yes", "--timeout", str(LIMIT_S)], cwd=tmp_path) as command:
                wait_for(lambda: "attic-1: set ok" in shown(), LIMIT_S, shown)
                wait_for(lambda: not sensor.running, LIMIT_S, "the restart")
                sensor.on()
            assert command.returncode == 0
            broker.stop()
            for _ in range(2):
                more = len(sensor.accepted()) + 5
                wait_for(lambda n=more: len(sensor.accepted()) > n, LIMIT_S, "readings in the journal")
                assert sensor.off()
                sensor.on()
            accepted = {seq for seq, _ in sensor.accepted()}
            broker.start()
            wait_for(lambda: accepted <= _numbers(subscriber.messages), LIMIT_S, "what was accepted")
        finally:
            sensor.off()
