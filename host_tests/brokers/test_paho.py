"""Paho at level 5 at the other end of a broker: two clients that share no code understand each other."""

import queue

import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from inflight import properties

pytestmark = pytest.mark.parametrize("level", [5], indirect=True, ids=[""])


class Paho:
    """A connected client of level 5. got: a queue of its messages."""

    def __init__(self, port, name):
        self.got = queue.Queue()
        self._subscribed = queue.Queue()
        connected = queue.Queue()
        self.client = client = paho.Client(paho.CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
        client.on_connect = lambda *_: connected.put(True)
        client.on_subscribe = lambda *_: self._subscribed.put(True)
        client.on_message = lambda _, __, message: self.got.put(message)
        client.connect("127.0.0.1", port)
        client.loop_start()
        connected.get(timeout=30)

    def subscribe(self, filter, **options):
        given = Properties(PacketTypes.SUBSCRIBE)
        given.SubscriptionIdentifier = 7
        self.client.subscribe(filter, options=SubscribeOptions(qos=2, **options), properties=given)
        self._subscribed.get(timeout=30)

    def publish(self, topic, payload, qos, **given):
        block = Properties(PacketTypes.PUBLISH)
        for name, value in given.items():
            setattr(block, name, value)
        self.client.publish(topic, payload, qos, properties=block).wait_for_publish(30)

    def end(self):
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def other(broker):
    client = Paho(broker.port, f"{broker.root}paho")
    yield client
    client.end()


@pytest.fixture
def qos(kind):
    """The highest one."""
    return 2 if kind.qos_2 else 1


def test_to_paho(broker, join, other, qos):
    """[MQTT5-3.3.2-13] [MQTT5-3.3.2-19] Each property, at each QoS, with and without an alias in place of the topic."""
    other.subscribe(f"{broker.root}/t")
    user = [("a", "1"), ("ü", "€"), ("a", "2")]
    meta = properties(600, "text/plain", "answers/1", b"\0\xff", True, user)
    client = join(broker, "client", aliases=5)
    for k in range(2 * qos + 2):
        client.publish(f"{broker.root}/t", b"%d" % k, k % (qos + 1), properties=meta)
    assert client.drain(5000)
    found = []
    for _ in range(2 * qos + 2):
        message = other.got.get(timeout=30)
        given = message.properties
        assert message.topic == f"{broker.root}/t"
        assert (given.ContentType, given.ResponseTopic, given.CorrelationData) == ("text/plain", "answers/1", b"\0\xff")
        assert (given.PayloadFormatIndicator, given.UserProperty) == (1, user)
        assert 0 < given.MessageExpiryInterval <= 600
        found.append((message.payload, message.qos))
    assert sorted(found) == [(b"%d" % k, k % (qos + 1)) for k in range(2 * qos + 2)]


def test_from_paho(broker, join, other, together, qos):
    """[MQTT5-3.3.2-15] [MQTT5-3.3.2-16] [MQTT5-3.3.2-17] [MQTT5-3.3.2-18] Likewise in the other direction; Paho uses an
    alias, which the broker resolves for a client that takes none."""
    client = join(broker, "client")

    def note(m):
        found = (m.content_type, m.response_topic, m.correlation, m.text, m.user)
        client.got.append((m.topic[len(broker.root) + 1 :], m.payload, m.qos, found, m.expiry))

    client.subscribe(f"{broker.root}/t", 2, note)
    user = [("a", "1"), ("ü", "€"), ("a", "2")]
    given = {
        "ContentType": "text/plain",
        "ResponseTopic": "answers/1",
        "CorrelationData": b"\0\xff",
        "PayloadFormatIndicator": 1,
        "UserProperty": user,
        "MessageExpiryInterval": 600,
        "TopicAlias": 1,
    }
    for k in range(qos + 1):
        other.publish(f"{broker.root}/t" if not k else "", b"%d" % k, k, **given)
    assert together([client], lambda: len(client.got) == qos + 1)
    wanted = ("text/plain", "answers/1", b"\0\xff", True, user)
    for k, (topic, payload, came_at, found, expiry) in enumerate(sorted(client.got)):
        assert (topic, payload, came_at, found) == ("t", b"%d" % k, k, wanted) and 0 < expiry <= 600
