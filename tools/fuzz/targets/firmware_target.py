"""A device's configuration and commands: ConfigError or valid fields; a reply or none.

data: a byte; its lowest two bits: 0: a configuration as pairs (field, value); 1: a configuration's text; 2, 3: a
command. For a command the other bits are retain, redelivered and whose topic it is; then the topic's length, the
topic, the payload."""

import io
import json

import config
from inflight import Journal, RamFlash
from inflight.arguments import encode_name
from inflight.client.subscriptions import matches
from node import Node
from outcome import Outcome, Reader, demand

SECRET = "a secret nobody has to know"
BASE = "inflight/box/"
_FIELDS = sorted(config._FIELDS + ["wlan"])
_VALUES = (
    None, 0, 1, -1, 3, 60, 1000, 65535, 65536, 10**12, 1.5, True, "", "a", "b.example", "DE", "oldest", "a/b", "a//b",
    "#", "ü", "x" * 100, SECRET, [], ["192.168.1.2"] * 4, ["1.2.3.4", 5], [1], [{}], [{"driver": "dht22"}] * 2,
    {"a": 1}, [[]],
)  # fmt: skip


def _checked(given):
    # True if it was accepted; then the fields that determine memory and time are in their ranges.
    try:
        found = config.check(given, "box")
    except config.ConfigError as e:
        demand(SECRET not in str(e), "the error shows what stands in a field: %s", e)
        return False
    for name, (usual, least, most) in config._NUMBERS.items():
        value = getattr(found, name)
        demand(value == usual or least <= value <= most, "%s is %r", name, value)
    encode_name("%s/%s/status" % (found.root, found.device))
    demand(isinstance(found.host, str) and found.host, "host %r", found.host)
    return True


def _fields(reader):
    given = {"host": "h"}
    while reader.left:
        name = _FIELDS[reader.byte() % len(_FIELDS)]
        given[name] = _VALUES[reader.byte() % len(_VALUES)]
    return _checked(given)


def _text(data):
    config.open = lambda path, mode: io.BytesIO(data)
    try:
        config.load("config.json", "box")
    except config.ConfigError as e:
        demand(str(e).startswith("config.json: "), "%s", e)
    finally:
        del config.open
    return 2  # interpreters differ in what they accept as JSON


class _Board:
    def config_path(self):
        return "no-such-file.json"

    def sensors(self):
        return ()

    def reset_cause(self):
        return "power-on"


class _Client:
    """Records what a device publishes."""

    def __init__(self):
        self.published = []

    def subscribe(self, pattern, qos, handler):
        self.pattern, self.handler = pattern.encode(), handler

    def publish(self, topic, payload, qos, retain, properties=None):
        self.published.append((topic, payload, qos, retain))
        return 1


class _Message:
    def __init__(self, topic, payload, flags):
        self.topic, self.payload = topic, payload
        self.retain, self.redelivered = flags & 4 == 4, flags & 8 == 8


def _device():
    given = {"host": "h", "user": "me", "password": SECRET, "wifi_ssid": "net", "wifi_key": SECRET}
    client = _Client()
    node = Node(_Board(), config.check(given, "box"), Journal(RamFlash()), client, None, began=0)
    node.subscribe()  # as an application does, when it is made or when it connects
    return node, client


def _command(reader, flags):
    node, client = _device()
    node.set_interval = lambda ms: demand(100 <= ms <= 86_400_000, "an interval of %d ms", ms)
    size = reader.byte()
    topic = (b"" if flags & 16 else (BASE + "command/").encode()) + reader.bytes(size)
    payload = reader.bytes(reader.left)
    try:
        encode_name(topic)
    except ValueError:
        return 3  # no broker can send it
    if matches(client.pattern, topic, 0, len(topic)):
        demand(topic.startswith((BASE + "command").encode()), "%r was obeyed", topic)
        client.handler(_Message(str(topic, "utf-8"), payload, flags))
    for name, text, _, retain in client.published:
        demand(name.startswith(BASE + "reply/") and not retain, "it published %r", name)
        demand(SECRET.encode() not in text, "%r tells the secret", text)
        reply = json.loads(text)
        demand(not node.stopping or (reply["ok"] and not flags & 4), "it stops, but says %r", reply)
    demand(len(client.published) + len(node.errors) <= 1, "%d answers", len(client.published))
    demand(len(str(node.errors)) < 200, "%r grows with its input", node.errors)
    return 4 + len(client.published) + 2 * node.stopping


def run(data):
    reader = Reader(data)
    first = reader.byte()
    outcome = Outcome()
    if first & 3 == 0:
        outcome.note(_fields(reader))
    elif first & 3 == 1:
        outcome.note(_text(data[1:]))
    else:
        outcome.note(_command(reader, first))
    return outcome.number
