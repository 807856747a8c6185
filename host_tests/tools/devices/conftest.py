"""A unix board that runs by itself, and made-up devices, at one mosquitto."""

import json
import threading

import pytest
from paho.mqtt import publish

from host_tests.tools.command import inflight
from host_tests.tools.update.conftest import broker, code, device_of, key, release_of, texts  # noqa: F401
from host_tests.tools.update.test_rollout import Fleet
from inflight_tools.broker import Broker, client_of


@pytest.fixture
def box(device_of):  # noqa: F811
    """The running device `box`, whose configuration has a password."""
    device = device_of("box", user="box", password="the password")
    with Fleet([device]):
        yield device


@pytest.fixture
def told(broker):  # noqa: F811
    """told(device, kind, payload, **fields): publishes a retained message; by default its payload are the fields."""

    def tell(device, kind, payload=None, **fields):
        publish.single(f"inflight/{device}/{kind}", payload or json.dumps(fields), 1, True, port=broker.port)

    return tell


@pytest.fixture
def answering(broker, told):  # noqa: F811
    """answering(device, (kind, fields), ...): from now on this made-up device answers each command with these messages,
    a reply that is `ok` with the command's number. Returns the list of (command, payload) that it has got."""
    clients = []

    def start(device, *messages):
        got = []

        def answer(client, _, message):
            command, _, number = message.topic.partition("/command/")[2].partition("@")
            got.append((command, message.payload))
            for kind, fields in messages:
                more = {"number": int(number)} if fields.get("ok") else {}
                topic = f"inflight/{device}/{kind.replace('reply', f'reply/{command}')}"
                client.publish(topic, json.dumps(fields | more), 1)

        clients.append(client_of(Broker("127.0.0.1", broker.port, "inflight", None, None, None, None), "made-up"))
        clients[-1].on_message = answer
        clients[-1].on_connect = lambda client, *_: client.subscribe(f"inflight/{device}/command/#", 1)
        subscribed = threading.Event()
        clients[-1].on_subscribe = lambda *_: subscribed.set()
        clients[-1].connect("127.0.0.1", broker.port)
        clients[-1].loop_start()
        assert subscribed.wait(60)
        told(device, "status", state="online", firmware="1", seq=1, epoch=1)
        return got

    yield start
    for client in clients:
        client.disconnect()
        client.loop_stop()


@pytest.fixture
def device(broker):  # noqa: F811
    """device(word, ...): the result of `inflight device WORDS` at the broker; stdin: what is typed."""
    at = "--broker", f"127.0.0.1:{broker.port}"
    return lambda *words, stdin=None: inflight("device", *words, *at, stdin=stdin)
