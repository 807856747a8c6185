"""Promise: with the configuration in examples/mosquitto no device reads or writes what belongs to another one."""

import getpass
import shutil
import ssl
import threading

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from inflight_tools.fleet.collect.collector import KINDS, marker_topic
from inflight_tools.update.server import KINDS as TO_UPDATES
from tools.peers import certificates
from tools.peers.daemon import Daemon, held_port
from tools.peers.mosquitto import EXAMPLE, of_a_fleet, only, password, unavailable
from tools.runtimes import program

JUDGE = "judge"  # receives everything
USERS = (JUDGE, "attic", "cellar", "collector-0", "updates", "operator", "homeassistant")
# What a device publishes below its own topic. A # of the collector's filters stands for a name.
OF_A_DEVICE = sorted({kind.replace("#", "pump") for kind in (*KINDS, *TO_UPDATES)})
TO_A_DEVICE = ("command/reboot", "command/set", "command/actuator/pump", "update/manifest", "update/chunk")
MARKER = marker_topic("inflight", "collector-0")
DISCOVERY = "homeassistant/sensor/{}/temperature/config"
OTHERS = (MARKER, "inflight/attic", "inflight", "homeassistant/status", "x", "inflight/attic/x")


class User:
    """A client of the broker on `port`, with the credentials of `name`."""

    def __init__(self, port, name, client_id="", host="127.0.0.1", tls=None):
        self.got = []
        self._answers = {}
        self._arrived = threading.Condition()
        self.client = paho.Client(CallbackAPIVersion.VERSION2, client_id or name, protocol=paho.MQTTv311)
        self.client.username_pw_set(name, password(name))
        self.client.on_subscribe = lambda client, userdata, mid, reasons, properties: self._answer(mid, 0)
        self.client.on_disconnect = lambda *_: self._answer("ended", True)
        self.client.on_message = lambda client, userdata, message: self.got.append(message.topic)
        if tls:
            self.client.tls_set_context(tls)
        self.client.connect(host, port)
        self.client.loop_start()

    def _answer(self, mid, value):
        with self._arrived:
            self._answers[mid] = value
            self._arrived.notify_all()

    def wait(self, mid):
        with self._arrived:
            assert self._arrived.wait_for(lambda: mid in self._answers, 240)
            return self._answers.pop(mid)

    def publish(self, *topics, retain=False):
        for topic in topics:
            self.client.publish(topic, b"{}", 0, retain)
        self.subscribe("inflight/nothing")  # the broker has gone through them before it answers

    def subscribe(self, *filters):
        self.wait(self.client.subscribe([(name, 1) for name in filters])[1])
        return self

    def arrived(self):
        """What has arrived: an answer of the broker comes behind it."""
        self.subscribe("inflight/nothing")
        return sorted(self.got)

    def end(self):
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture
def users(mosquitto, tmp_path):
    lines = of_a_fleet(tmp_path / "users", USERS)
    access = tmp_path / "access"
    access.write_text(f"{(EXAMPLE / 'access').read_text()}\nuser {JUDGE}\ntopic read #\n")
    broker = mosquitto(*[line for line in lines if not line.startswith("acl_file")], f"acl_file {access}")
    found = {name: User(broker.port, name) for name in USERS}
    found["port"] = broker.port
    yield found
    for user in found.values():
        if isinstance(user, User):
            user.end()


def test_a_device_publishes_its_own_topics(users):
    operator = users["operator"].subscribe("inflight/#")
    collector = users["collector-0"].subscribe(*(f"inflight/+/{kind}" for kind in KINDS))
    judge = users[JUDGE].subscribe("#")
    mine = [f"inflight/attic/{kind}" for kind in OF_A_DEVICE]
    users["attic"].publish(*mine, DISCOVERY.format("attic"))
    assert judge.arrived() == sorted([*mine, DISCOVERY.format("attic")])
    told = [topic for topic in mine if topic != "inflight/attic/want"]
    assert operator.arrived() == collector.arrived() == told


def test_a_command_is_read_by_its_device_alone(users):
    """`set` may bring a password."""
    everybody = {name: users[name].subscribe("inflight/#") for name in USERS if name != JUDGE}
    users["operator"].publish("inflight/attic/command/set")
    assert [name for name, user in everybody.items() if user.arrived()] == ["attic"]


@pytest.mark.parametrize("retain", [False, True])
def test_a_device_publishes_no_topic_of_others(users, retain):
    """Neither telemetry of another device, nor commands, announcements, replies and discovery, nor markers."""
    judge = users[JUDGE].subscribe("#")
    theirs = [f"inflight/attic/{kind}" for kind in (*OF_A_DEVICE, *TO_A_DEVICE)]
    own = [f"inflight/cellar/{kind}" for kind in TO_A_DEVICE]  # it does not command or update itself
    users["cellar"].publish(*theirs, *own, DISCOVERY.format("attic"), *OTHERS, retain=retain)
    assert judge.arrived() == []


def test_a_device_receives_nothing_of_others(users):
    other = users["cellar"].subscribe("#", "inflight/#", "inflight/+/command/#", "homeassistant/#", "$SYS/#", "+/+/+")
    theirs = [f"inflight/attic/{kind}" for kind in OF_A_DEVICE]
    users["attic"].publish(*theirs, DISCOVERY.format("attic"), retain=True)
    users["operator"].publish("inflight/attic/command/set")
    users["updates"].publish("inflight/attic/update/manifest", retain=True)
    users["collector-0"].publish(MARKER)
    users["operator"].publish("inflight/cellar/command/reboot")
    users["homeassistant"].publish("homeassistant/status")
    assert set(other.arrived()) == {"inflight/cellar/command/reboot", "homeassistant/status"}


def test_each_service_has_its_own_topics(users):
    """Whoever gets the password of one cannot do what another one does. Home Assistant sends what the announcement of
    any device names: no settings."""
    allowed = {
        "collector-0": {MARKER},
        "updates": {"inflight/attic/update/manifest", "inflight/attic/update/chunk"},
        "operator": {f"inflight/attic/{topic}" for topic in TO_A_DEVICE if topic.startswith("command")},
        "homeassistant": {
            "inflight/attic/command/reboot",
            "inflight/attic/command/actuator/pump",
            "homeassistant/status",
        },
    }
    topics = [f"inflight/attic/{kind}" for kind in (*OF_A_DEVICE, *TO_A_DEVICE)] + [DISCOVERY.format("attic"), *OTHERS]
    judge = users[JUDGE].subscribe("#")
    for name, mine in allowed.items():
        judge.got.clear()
        users[name].publish(*topics)
        assert set(judge.arrived()) == mine, name


def test_nobody_takes_over_a_session(users):
    """A device that connects with the client id of another one is given its own."""
    attic = users["attic"].subscribe("inflight/attic/command/#")
    thief = User(users["port"], "cellar", "attic").subscribe("inflight/attic/command/#")
    assert users["cellar"].wait("ended")  # it was this session that went on elsewhere
    users["operator"].publish("inflight/attic/command/reboot")
    assert attic.arrived() == ["inflight/attic/command/reboot"]
    assert thief.arrived() == []
    thief.end()


@pytest.mark.parametrize("name, secret", [(None, None), ("attic", "wrong"), ("nobody", "x")])
def test_nobody_connects_without_a_password(users, name, secret):
    client = paho.Client(CallbackAPIVersion.VERSION2, "stranger", protocol=paho.MQTTv311)
    if name:
        client.username_pw_set(name, secret)
    refused = []
    client.on_connect = lambda client, userdata, flags, reason, properties: refused.append(reason.value)
    client.connect("127.0.0.1", users["port"])
    while not refused:
        client.loop(1)
    assert refused[0] in (0x86, 0x87)


class AsItIs(Daemon):
    """A mosquitto with the files of examples/mosquitto: only ports and folders are others."""

    name = "mosquitto"

    def __init__(self, folder, authority):
        super().__init__(folder)
        self.tls_port = held_port(self)
        text = (EXAMPLE / "mosquitto.conf").read_text()
        for there, here in (
            ("/etc/mosquitto", folder),
            ("/var/lib/mosquitto", folder),
            ("listener 8883", f"listener {self.tls_port} 127.0.0.1"),
            ("listener 1883", f"listener {self.port}"),
        ):
            assert there in text
            text = text.replace(there, str(here))
        _, chain, key = certificates.write(folder, authority, "localhost")
        shutil.copy(chain, folder / "broker.pem")
        shutil.copy(key, folder / "broker.key")
        shutil.copy(EXAMPLE / "access", folder)
        only(folder, {"attic": password("attic")})
        configuration = folder / "mosquitto.conf"
        configuration.write_text(f"{text}user {getpass.getuser()}\n")
        self.argv = [*program("mosquitto"), "-c", str(configuration)]


def test_the_files_as_they_are(tmp_path, authority):
    if unavailable():
        pytest.skip(unavailable())
    with AsItIs(tmp_path / "broker", authority) as broker:
        context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
        attic = User(broker.tls_port, "attic", host="localhost", tls=context)
        attic.subscribe("inflight/#").publish("inflight/cellar/telemetry", "inflight/attic/telemetry")
        assert attic.arrived() == ["inflight/attic/telemetry"]
        attic.end()
