"""Promise: a device executes commands only from its own topics, never retained ones, and replies only there."""

import json
from types import SimpleNamespace

import pytest

from config import check
from host_tests.broker import PATIENCE_S
from host_tests.clients import cut_power
from inflight import Client, Journal, RamFlash
from node import Node
from tools.reference.kinds import PUBLISH
from tools.reference.wire import puback, publish

OWN = "inflight/box/"
OF_OTHERS = """
    inflight/other/command/reboot inflight/bo/command/reboot inflight/boxes/command/reboot inflight/box/commands/reboot
    inflight/box/xcommand/reboot inflight/box/reply/reboot inflight/box/telemetry/command/reboot
    inflight/BOX/command/reboot inflight//box/command/reboot /inflight/box/command/reboot other/box/command/reboot
    inflight/command/reboot command/reboot box/command/reboot $SYS/inflight/box/command/reboot
    $share/g/inflight/box/command/reboot inflight/box/command\u200b/reboot
""".split()


BOARD = SimpleNamespace(sensors=tuple, reset_cause=lambda: "power-on")


class Device(Node):
    interval = None

    def set_interval(self, ms):
        self.interval = ms


@pytest.fixture
def device(broker):
    """A device called box, connected to the scripted broker."""
    journal = Journal(RamFlash(32, 1024))
    buffer = bytearray(8192)
    options = {"timeout_ms": PATIENCE_S * 1000, "keepalive": 0, "buffer": buffer}
    client = Client("127.0.0.1", "box", journal, port=broker.port, **options)
    node = Device(BOARD, check({"host": "h"}, "box"), journal, client, None, began=0)
    node.subscribe()
    yield node
    cut_power(client)


def replies_to(broker, device, *packets):
    """Sends these packets to the device, and then a ping command. Returns what the device publishes before the answer
    to the ping."""
    replies = []

    def script(b):
        b.welcome()
        b.grant(filters=[(OWN + "command/#", 2)])
        b.send(*packets, publish(OWN + "command/ping", b"fence", 1, 9))
        while not (replies and replies[-1][1].get("echo") == "fence"):
            p = b.receive()
            if p.kind == PUBLISH:
                replies.append((p.topic, json.loads(p.payload)))
                b.send(puback(p.mid))

    with broker.play(script):
        while not broker.finished:
            device.client.run_for(5)
    return replies[:-1]


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_commands_of_others(broker, device, qos):
    """A broker may deliver them by mistake, or because of a wildcard subscription."""
    replies = replies_to(broker, device, *(publish(topic, b"", qos, k + 1) for k, topic in enumerate(OF_OTHERS)))
    assert replies == [] and not device.stopping


def test_its_own_command(broker, device):
    """The positive case for the test above."""
    ((topic, reply),) = replies_to(broker, device, publish(OWN + "command/reboot", b"", 1, 1))
    assert topic == OWN + "reply/reboot" and reply["ok"] and device.stopping


@pytest.mark.parametrize("name", ["reboot", "ping", "interval"])
def test_retained_commands(broker, device, name):
    """The broker would deliver it after each start."""
    ((_, reply),) = replies_to(broker, device, publish(OWN + "command/" + name, b"500", 1, 1, retain=1))
    assert not reply["ok"] and "retain" in reply["error"] and not device.stopping
