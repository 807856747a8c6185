"""The application with a broker: its messages, and its commands."""

import gc
import json
import sys
import time
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import commands
import crash
import files
from codes import IDLE, ONLINE
from config import Config
from host_tests.broker import PATIENCE_S, Automatic
from host_tests.clients import cut_power
from host_tests.firmware.conftest import Counting, gathered
from host_tests.waiting import wait_for
from inflight import RamFlash
from inflight.journal.journal import OUT
from inflight_tools.settings import SECRETS
from nor import PowerCut
from tools.reference.kinds import CONNECT, PUBACK, SUBACK, SUBSCRIBE


def numbers(broker):
    bodies = [json.loads(m.payload) for m in broker.arrived]
    return [(body[0] if isinstance(body, list) else body)["seq"] for body in bodies]


@pytest.fixture
def ask(broker, until, published):
    """ask(app, name, payload) sends a command, and returns the reply."""

    def run(app, name, payload=b"", retain=0, reply=None):
        topic = f"reply/{reply or name or '?'}"
        before = len(published(topic))
        broker.give(f"inflight/dev/command/{name}", payload, 2, retain)
        until(app, lambda: len(published(topic)) > before)
        return published(topic)[-1]

    return run


# --- telemetry ---


@pytest.mark.parametrize("qos", [1, 2])
def test_every_message_has_a_number_of_its_own(make, broker, until, published, qos):
    """Commands come at that QoS, too."""
    app = make(broker.port, qos=qos, health_ms=1000)
    until(app, lambda: published("status"))
    requests = [p.filters for p in broker.connections[0].packets if p.kind == SUBSCRIBE]
    assert requests == [[("inflight/dev/command/#", qos)]]
    broker.give("inflight/dev/command/ping", b"x", 2)
    kinds = {"telemetry", "health", "status", "reply/ping"}
    until(app, lambda: all(published(kind) for kind in kinds) and not app.client.pending)
    assert set(numbers(broker)) == set(range(app.journal.next_seq))
    assert {m["epoch"] for kind in kinds for m in published(kind)} == {app.journal.epoch}
    first = next(m for m in broker.arrived if m.topic.endswith("telemetry"))
    record = json.loads(first.payload)[0]
    assert first.qos == qos and not first.retain
    assert (record["bn"], record["n"], record["u"], record["v"]) == ("urn:dev:mac:dev:", "temperature", "Cel", 21.5)


def test_readings_before_the_clock_is_set_are_dated(make, nobody, broker, until, published):
    """By the time since the start: of this boot, not of one that was cut before it knew the time."""
    flash = RamFlash(8, 4096)
    cut = make(nobody, flash)
    cut.board.wifi = IDLE  # no time server answers
    until(cut, lambda: cut.journal.live >= 2)
    first = cut.journal.next_seq
    app = make(broker.port, flash)
    app.board.wifi = IDLE
    until(app, lambda: len(published("telemetry")) >= first + 2)
    app.board.wifi = ONLINE
    until(app, lambda: published("telemetry")[-1]["bt"])
    (dating,), dated = published("dating"), published("telemetry")[-1]
    assert dating["boot"] == first and dating["seq"] < dated["seq"]
    for reading in published("telemetry")[first:-1]:
        assert dating["boot"] <= reading["seq"] < dating["seq"]
        assert time.time() - 60 < dating["bt"] + reading["up"] - dating["up"] <= time.time()


# --- gathered readings ---


class Changing(Counting):
    """Another reading each time, and one that is there now and then."""

    def sensors(self):
        yield from super().sensors()
        if self.count % 5:
            yield "door", None, self.count % 2 == 0


def test_readings_are_gathered_without_a_connection(make, nobody, broker, until):
    """Each has its number and its time; no number is missing, and what is gathered takes a quarter of the space."""
    flash, board = RamFlash(16, 4096), Changing()
    offline = make(nobody, flash, board=board, interval_ms=100)
    until(offline, lambda: board.count >= 45)
    last = board.count
    used = offline.journal.used
    assert offline.journal.live <= 6 and offline.client.counters()["dropped"] == 0
    online = make(broker.port, flash, board=board)
    until(online, lambda: len(gathered(broker)) >= last + 3 and not online.client.pending)
    found = gathered(broker)
    assert [values["count"] for _, values in found.values()] == list(range(1, len(found) + 1))
    assert all(("door" in values) == (values["count"] % 5 > 0) for _, values in found.values())
    times = [at for at, _ in found.values()]
    assert times == sorted(times) and times[0] > time.time() - 100
    assert len({*times[:last]}) == last and len({*times[last:]}) == len(times) - last  # a restart may take no time
    assert set(range(online.journal.next_seq)) == set(found) | set(numbers(broker))
    singly = make(nobody, RamFlash(16, 4096), board=Changing(), interval_ms=100, batch=1)
    until(singly, lambda: singly.board.count >= last)
    assert used * 4 < singly.journal.used


def test_a_power_cut_while_readings_are_gathered_loses_none(make, nobody, broker, until, monkeypatch):
    """Whatever was done of it: the longer message accepted, the shorter one given up, or not."""

    flash, board = RamFlash(16, 4096), Changing()
    for name in ("discard", "publish") * 3:
        cut = make(nobody, flash, board=board)
        until(cut, lambda count=board.count: board.count >= count + 4)
        with monkeypatch.context() as patch, pytest.raises(PowerCut):
            patch.setattr(cut.client, name, Mock(side_effect=PowerCut))
            until(cut, lambda: False)
        cut_power(cut.client)
        if name == "publish":
            board.count -= 1  # the reading was not accepted
    last = board.count
    online = make(broker.port, flash, board=board)
    until(online, lambda: len(gathered(broker)) > last and not online.client.pending)
    counts = [values["count"] for _, values in gathered(broker).values()]
    assert counts == list(range(1, len(counts) + 1))


# --- sensors ---


def test_a_sensor_that_fails_is_in_health_until_it_works_and_stops_no_other(make, broker, until, published):
    app = make(broker.port, health_ms=1000)
    app.board.readings = [("bad", "V", OSError(5, "EIO")), ("good", "V", 3)]
    until(app, lambda: published("health") and published("telemetry"))
    assert published("telemetry")[-1]["n"] == "good" and "EIO" in published("health")[-1]["errors"]["bad"]
    app.board.readings = [("bad", "V", 3)]
    count = len(published("health"))
    until(app, lambda: len(published("health")) > count)
    assert published("health")[-1]["errors"] == {}


def test_slow_sensor_delays_no_other(make, broker, until, published):
    class Slow:
        started = 0

        def start(self):
            self.started += 1
            return 400

        def __call__(self):
            yield "slow", "V", self.started

    slow = Slow()
    app = make(broker.port, sources=[slow])
    broker.give("inflight/dev/command/ping", b"x", 2)
    # Commands are obeyed meanwhile, and a measurement under way is not begun again.
    until(app, lambda: published("reply/ping") or published("telemetry"))
    assert not published("telemetry")
    until(app, lambda: len(published("telemetry")) >= 3)
    assert [m["v"] for m in published("telemetry")] == [1, 2, 3]


# --- status and health ---


def test_birth_is_retained_and_the_will_says_offline(make, broker, until, published):
    app = make(broker.port)
    until(app, lambda: published("status"))
    birth = next(m for m in broker.arrived if m.topic == "inflight/dev/status")
    body = json.loads(birth.payload)
    assert birth.retain and body["state"] == "online" and body["firmware"] == app.version
    assert body["board"] == app.board.NAME and "group" not in body
    connect = broker.connections[-1].packets[0]
    topic, payload, qos, retain = connect.will
    assert connect.kind == CONNECT
    assert (topic, json.loads(payload)["state"], qos, retain) == ("inflight/dev/status", "offline", 1, True)


def test_mqtt_5(make, nobody, broker, until, published):
    """Readings expire, all else does not: those of an outage that was too long are dropped. A delay of the will is as
    configured."""
    flash, fields = RamFlash(8, 4096), {"protocol_level": 5, "expiry_s": 3600, "will_delay_s": 90}
    app = make(nobody, flash, **fields)
    until(app, lambda: app.journal.live >= 3)
    old = app.journal.next_seq
    readings = [topic for _, _, topic in app.board.log].count("telemetry")
    app = make(broker.port, flash, **fields)
    app.client.session.clock.value += 3600
    until(app, lambda: published("status") and len(published("telemetry")) > 2 and published("health"))
    connect = broker.connections[-1].packets[0]
    assert (connect.level, connect.will_properties) == (5, [(0x18, 90)])
    for message in broker.arrived:
        assert bool(message.properties) == message.topic.endswith("telemetry")
    assert all(body["seq"] >= old for body in published("telemetry"))
    assert app.client.counters()["expired"] == published("health")[-1]["counters"]["expired"] == readings > 0


def test_a_broker_that_takes_short_packets_only_does_not_end_it(make, until):
    """Health tells the rest, if the broker takes that."""
    with Automatic(announced=((0x27, 400),)) as broker:
        app = make(broker.port, protocol_level=5, health_ms=1000, ha=True)
        until(app, lambda: app.client.connected and "health" in app.errors and "home" in app.errors)
        arrived = len(broker.arrived)
        until(app, lambda: len(broker.arrived) > arrived + 2)
    assert "the broker takes 400" in app.errors["health"] and "the broker takes 400" in app.errors["home"]


@pytest.mark.parametrize("level", [4, 5])
def test_an_error_is_told_from_slot_files_too(make, broker, until, published, level):
    """Their records are short: a kilobyte."""
    app = make(broker.port, RamFlash(16, 1024), protocol_level=level, health_ms=1000)
    app.crash = {"count": 1, "error": "e" * 150, "at": "a" * 150, "told": False}
    until(app, lambda: len(published("health")) > 1)
    told = [body.get("error") for body in published("health")]
    assert told[:2] == [{"text": "e" * 150, "at": "a" * 150}, None] and not app.errors
    assert published("health")[1]["counters"]["accepted"]


def test_fields_of_health(make, broker, until, published):
    """Also the place of the journal, and the life of the flash that is used: percent of 100,000 erases of each
    sector."""
    flash = RamFlash(8, 4096)
    flash.where, flash.repaired = "pinned files", 2
    app = make(broker.port, flash)
    app.journal.erases = 7 * 8 * 1000 + 999
    until(app, lambda: published("health"))
    health = published("health")[0]
    assert (health["rssi"], health["reset"], health["wifi"]) == (-67, "power-on", ONLINE)
    assert set(health["counters"]) == set(app.client.counters())
    counts = {"live", "used", "limit", "erases", "damaged", "skipped", "worn"}
    assert set(health["journal"]) == counts | {"where", "repaired"}
    assert [health["journal"][name] for name in ("where", "repaired", "worn")] == ["pinned files", 2, 7]
    assert {"heap", "up", "outbox_full", "firmware", "errors", "seq", "epoch"} <= set(health)


def test_health_tells_of_a_refused_subscription_until_it_is_granted(make, broker, until, published):
    refused = True
    broker.faults.answer = lambda raw: [raw[:4] + b"\x80" if refused and raw[0] >> 4 == SUBACK else raw]
    app = make(broker.port, health_ms=1000)
    until(app, lambda: len(published("health")) > 1)
    for told in published("health")[-1:]:
        assert "subscription refused: inflight/dev/command/#, code 128" in told["errors"]["mqtt client"]
    app.client.on_error(ValueError("a bug"))  # what comes later does not hide it
    until(app, lambda: len(published("health")) > 2)
    assert "refused" in published("health")[-1]["errors"]["mqtt client"]
    refused = False
    broker.connections[-1].finish()
    until(app, lambda: published("health")[-1]["errors"] == {})
    app.client.on_error(ValueError("a bug"))  # told once
    count = len(published("health"))
    until(app, lambda: len(published("health")) > count + 1)
    assert [told["errors"] for told in published("health")[count : count + 2]] == [
        {"mqtt client": "ValueError: a bug"},
        {},
    ]


def test_free_heap_is_that_before_the_message_is_composed(make, broker, until, published, monkeypatch):
    monkeypatch.delitem(sys.modules, "health", raising=False)
    free = iter([7000, 5000, 6000])
    monkeypatch.setattr(gc, "mem_free", lambda: next(free) - ("health" in sys.modules), raising=False)
    app = make(broker.port, health_ms=1000, interval_ms=60_000)
    for count, told in enumerate([(7000, 7000), (5000, 5000), (6000, 5000)], 1):
        until(app, lambda count=count: len(published("health")) == count)
        assert (published("health")[-1]["heap"], published("health")[-1]["heap_least"]) == told
        sys.modules.pop("health")  # as the build does it


def test_messages_tell_the_oldest_number_that_the_broker_has_not_completed(make, broker, until, published):
    """The broker acknowledges nothing on the first connection, and everything on the second one."""
    app = make(broker.port)
    broker.faults.answer = lambda raw: [] if raw[0] >> 4 == PUBACK else [raw]
    until(app, lambda: published("status") and published("health") and len(published("telemetry")) > 1)
    broker.faults.answer = lambda raw: [raw]
    broker.connections[-1].finish()
    until(app, lambda: len({m["seq"] for m in published("status")}) == 2 and not app.client.pending)
    app.close()
    told = sorted((m["seq"], m["oldest"]) for m in published("status") + published("health"))
    # The status of the second connection may come after what was acknowledged on it.
    assert len(told) >= 4 and {oldest for _, oldest in told[:-2]} == {0}
    assert told[-1] == (app.journal.next_seq - 1,) * 2


def test_the_group_and_safe_mode_are_in_the_status_of_a_device_that_is_there(make, broker, until, published):
    app = make(broker.port, group="greenhouse", sources=())
    app.crash = {"count": 2, "error": "MemoryError: ", "at": None, "told": True, "safe": True}
    until(app, lambda: published("status") and published("health"))
    assert "error" not in published("health")[0] and not published("telemetry")
    app.close()
    told = [(m["state"], m.get("group"), m.get("safe")) for m in published("status")]
    assert told == [("online", "greenhouse", True), ("offline", None, True)]
    assert not app.client.pending


def test_a_command_that_waited_may_end_the_start_in_which_a_trial_connects(make, broker, published, monkeypatch):
    """The configuration on trial has connected, so it stays; and the device has said that it is there."""
    monkeypatch.setattr(Config, "trial", True)
    broker.give("inflight/dev/command/reboot", b"", 2)
    app = make(broker.port)
    app.run()
    assert not app.config.trial
    assert [m["state"] for m in published("status")] == ["online", "offline"]


_BROKEN = [{"driver": "counter", "pin": 4, "edge": "both"}]


_COUNTER = 'sensors: counter: edge: write "falling" or "rising"'
_PWM = [{"driver": "pwm", "pin": 5}]


@pytest.mark.parametrize(
    ("before", "more", "actuators", "why"),
    [
        (None, [], [], _COUNTER),
        (_BROKEN, [], [], None),
        (_BROKEN, [{"driver": "digital", "pin": 5}], [], None),
        (_BROKEN, [], _PWM, "actuators: pwm: this machine has no such pins"),
    ],
)
def test_a_trial_that_a_driver_refuses_is_given_up(make, broker, published, before, more, actuators, why, monkeypatch):
    """Not if its entry is one of the configuration that is in force."""
    monkeypatch.setattr(Config, "trial", True)
    monkeypatch.setitem(sys.modules, "machine", SimpleNamespace(Pin=None))
    app = make(broker.port, sensors=_BROKEN + more, actuators=actuators)
    path = app.board.path
    path.with_name("config.json.try").write_text(path.read_text())
    path.write_text(json.dumps({"host": "127.0.0.1", "sensors": before}))
    broker.give("inflight/dev/command/reboot", b"", 2)
    app.run()
    assert app.board.configuration["sensors"] == (before if why else before + more)
    assert not path.with_name("config.json.try").exists()
    error = crash.last(app.board)["error"]
    if not why:
        assert not error and [m["state"] for m in published("status")] == ["online", "offline"]
        return
    assert error.startswith(f"set: {why}") and error.endswith(", the old ones are back")
    assert [m["state"] for m in published("status")] == ["offline"]


# --- commands ---


@pytest.fixture
def app(make, broker):
    return make(broker.port, interval_ms=60_000)


def test_ping_and_interval(app, ask, until, published):
    """The interval counts at once, and after the next start."""
    reply = ask(app, "ping", b"number 7")
    assert reply["ok"] and reply["echo"] == "number 7" and reply["epoch"] == app.journal.epoch
    assert ask(app, "interval", b"100")["interval_ms"] == 100
    before = len(published("telemetry"))
    until(app, lambda: len(published("telemetry")) >= before + 3)
    assert app.board.configuration["interval_ms"] == 100


KNOWN = "discard, interval, log, ping, reboot, retry, set, stay-awake"


def test_a_wrong_command_is_answered_with_what_to_do(app, broker, ask):
    """Names that no topic may have take no memory."""
    for name, payload, error in (
        *(("interval", payload, "from 100 to 86400000") for payload in (b"", b"soon", b"99", b"86400001", b"\xff")),
        ("stay-awake", b"1000", "always awake"),
        *(("discard", payload, "health lists them") for payload in (b"", b"x", b"7")),
        *((name, b"x", KNOWN) for name in ("format", "ping/now", "PING", "\u00fc\u20ac", "__class__", "")),
        ("actuator/pump", b"on", KNOWN),
        ("log", b"all", "use one of info, error, off"),
        ("ping", b"\xc3\x28", ""),
        *((f"ping@{number}", b"", "1 to 4294967295") for number in ("0", "4294967296", "-1", "1.5", "x", "1@2", "1/2")),
    ):
        reply = ask(app, name, payload, reply=name.partition("@")[0])
        assert not reply["ok"] and error in reply["error"], (name, payload, reply)
    assert "retain" in ask(app, "reboot", retain=1)["error"] and not app.stopping
    assert ask(app, "ping", b"fine")["ok"] and not app.errors
    message = SimpleNamespace(retain=False, payload=b"", redelivered=False)
    assert commands.execute(app, "retry", message)["ok"]
    assert "send this one again" in commands.execute(app, "retry", message)["error"]
    for n in range(20):
        broker.give("inflight/dev/command/\x01%d" % n, b"", 2)
    assert ask(app, "ping")["ok"]
    assert list(app.errors) == ["reply"]


WRONG_SETTINGS = (
    (b"[]", "not JSON, or no object"),
    (b'\xef\xbb\xbf{"qos": 1}', "begins with a BOM"),
    (b'{"sensors": [{"driver": "dht22", "pim": 4}]}', 'sensors: dht22: unknown field "pim": did you mean "pin"?'),
    (b'{"sleep_ms": 60000, "wake_on_pin": 4}', "wake_on_pin: MicroPython cannot wake this board by a pin"),
    (b"{}", "one JSON object"),
    (b'{"qos": 7}', "qos: write a whole number from 1 to 2"),
    (b'{"host": null}', "host is missing"),
    (b'{"wifi_key": "hunter2"}', "wifi_key needs wifi_ssid"),
    *((b'{"%s": null}' % name, "use deploy") for name in (b"tls_ca", b"update_keys", b"setup")),
    (b'{"device": "other"}', "the journal belongs to the present name"),
)


def test_settings_are_checked_like_the_configuration(app, ask):
    before = app.board.configuration
    for change, error in WRONG_SETTINGS:
        reply = ask(app, "set", change)
        assert not reply["ok"] and error in reply["error"] and "hunter2" not in reply["error"], (change, reply)
    assert app.board.configuration == before and not app.stopping


@pytest.mark.parametrize(
    "change, secret, place",
    [
        ({"host": "evil.example"}, "password", "host"),
        ({"port": 1}, "password", "port"),
        ({"user": "him"}, "password", "user"),
        ({"wifi_ssid": "evil", "wifi_key": "his-own-key"}, "password", "wifi_ssid"),
        ({"wifi_key": "his-own-key"}, "password", "wifi_key"),
        ({"wifi_networks": [{"ssid": "evil"}]}, "password", "wifi_networks"),
        ({"wifi_ip": ["10.0.0.2", "255.0.0.0", "10.0.0.1", "10.0.0.1"]}, "password", "wifi_ip"),
        ({"wifi_ssid": "evil", "password": "x"}, "wifi_key", "wifi_ssid"),
    ],
)
def test_a_command_brings_no_secret_to_another_place(make, broker, ask, change, secret, place):
    """Whoever may send commands need not know the password, and must not have it sent to a host of his own."""
    secrets = {"user": "me", "password": "hunter2", "wifi_ssid": "attic", "wifi_key": "the-wifi-key"}
    app = make(broker.port, interval_ms=60_000, tls_ca=None, **secrets)
    app.board.wifi = ONLINE
    before = app.board.configuration
    reply = ask(app, "set", json.dumps(change).encode())
    assert reply["error"] == f"{secret}: write it as well, or null: with another {place} it may go elsewhere"
    assert app.board.configuration == before and not app.stopping
    assert not (app.board.path.parent / "config.json.new").exists()
    # With the secrets it is accepted, also with null; and what is no place needs none.
    assert ask(app, "set", json.dumps({**secrets, **change}).encode())["ok"]
    assert ask(app, "set", b'{"keepalive": 30}')["ok"]


def test_a_device_tells_its_configuration_without_secrets(make, broker, ask):
    secrets = {"password": "hunter2", "wifi_key": "hunter22", "wifi_networks": [{"ssid": "b", "key": "hunter23"}]}
    app = make(broker.port, user="me", wifi_ssid="attic", setup={"code": "hunter-2-hunter"}, **secrets)
    app.board.wifi = ONLINE
    told = ask(app, "set", b"")
    whole = app.board.configuration
    assert told["config"] == {name: value for name, value in whole.items() if name not in SECRETS} != whole
    assert "hunter" not in json.dumps(told) and not app.stopping


def test_tls_proves_who_the_broker_is_on_any_network(make, broker, ask):
    app = make(broker.port, user="me", password="hunter2", tls_ca="/ca.der", wifi_ssid="attic")
    assert ask(app, "set", b'{"wifi_ssid": "other"}')["ok"]
    assert "password: write it as well" in ask(app, "set", b'{"host": "evil.example"}')["error"]
    assert ask(app, "set", b'{"host": "broker.example", "password": null, "user": null}')["ok"]


@pytest.mark.parametrize("trial", [False, True])
def test_a_change_keeps_the_changes_before_it(app, broker, ask, published, trial):
    """Commands that come together: the restart, or the confirmation of what is tried, has not come between them."""
    app.config.trial = trial
    if trial:
        files.write(app.board.config_path() + ".try", json.dumps({**app.board.configuration, "log": "info"}))
    broker.give("inflight/dev/command/set", b'{"health_ms": 2000}', 2)
    broker.give("inflight/dev/command/set", b'{"keepalive": 30}', 2)
    assert ask(app, "interval", b"250")["ok"]
    app.run()
    assert all(reply["ok"] for reply in published("reply/set"))
    assert app.board.configuration["interval_ms"] == 250
    fields = json.loads((app.board.path.parent / "config.json.new").read_text())
    assert (fields["health_ms"], fields["keepalive"], fields["interval_ms"]) == (2000, 30, 250)
    assert fields.get("log") == ("info" if trial else None)


# --- the log ---


def test_the_last_lines_of_the_log(app, ask):
    """They are bounded."""
    app.client.on_error(OSError(5, "EIO"))
    ask(app, "ping")
    lines = ask(app, "log")["lines"]
    assert [line.split(" ", 1)[1] for line in lines if "network:" not in line] == [
        "error OSError: [Errno 5] EIO",
        "info command ping",
        "info command log",
    ]
    for n in range(100):
        app.client.on_error(ValueError(f"{n:03} " + "x" * n * 3))
    lines = ask(app, "log")["lines"]
    assert len("".join(lines)) <= 400 and all(line.split()[1] in ("info", "error") for line in lines)


def test_lines_from_a_level_on_are_published(make, broker, ask, until, published):
    """That of the configuration, or of a command."""
    app = make(broker.port, log="info", interval_ms=60_000)
    until(app, lambda: published("log"))
    assert any("network: online" in line for body in published("log") for line in body["lines"])
    assert ask(app, "log", b"error")["level"] == "error"
    before = len(published("log"))
    app.client.on_error(ValueError("a bug"))
    until(app, lambda: len(published("log")) > before)
    assert "error ValueError: a bug" in published("log")[-1]["lines"][-1]
    ask(app, "log", b"off")
    app.client.on_error(ValueError("another"))
    ask(app, "ping")
    assert len(published("log")) == before + 1


def test_a_command_with_a_number_is_executed_once(app, broker, until, published):
    """However often it comes, and whoever sent another one meanwhile; the last hundred numbers are remembered. While
    they cannot be read, none is executed."""
    file = app.board.path.with_name("executed")

    def send(number, ms):
        count = len(published("reply/interval"))
        broker.give(f"inflight/dev/command/interval@{number}", b"%d" % ms, 1)
        until(app, lambda: len(published("reply/interval")) > count)
        return published("reply/interval")[-1]

    assert send(5, 500)["interval_ms"] == 500
    assert send(6, 700)["number"] == 6
    repeated = send(5, 500)
    assert (repeated["ok"], repeated["repeated"], repeated["number"]) == (True, True, 5)
    aside = file.rename(file.with_name("aside"))
    file.mkdir()  # no file that can be read
    assert "Error" in send(5, 500)["error"] and app.telemetry.ms == 700
    file.rmdir()
    aside.rename(file)
    assert send(5, 500)["repeated"] and app.telemetry.ms == 700
    for number in range(100, 199):
        send(number, 900)
    assert send(6, 700)["repeated"] and app.telemetry.ms == 900
    assert send(5, 500)["interval_ms"] == 500  # it is too long ago


def test_flash_that_fails(make, broker, ask, until, published, monkeypatch):
    """While health looks for messages set aside, and while a command is carried out: the device goes on, and tells
    it."""
    fail = Mock(side_effect=OSError(5, "EIO"))
    app = make(broker.port, interval_ms=60_000)
    counters = app.client.counters
    monkeypatch.setattr(app.client, "counters", lambda: {**counters(), "set_aside": 1})
    monkeypatch.setattr(app.client, "pending_messages", fail)
    until(app, lambda: published("health"))
    assert "EIO" in published("health")[0]["errors"]["journal"]
    monkeypatch.setattr(app.client, "retry", fail)
    assert ask(app, "retry")["ok"]
    assert "EIO" in ask(app, "log")["lines"][-2]


def test_reboot_happens_after_all_messages_are_delivered(app, broker, until, published):
    broker.give("inflight/dev/command/reboot", b"", 2)
    app.run()
    assert published("reply/reboot")[0]["ok"]
    assert published("status")[-1]["state"] == "offline"
    assert not app.client.pending
    # The broker has no unacknowledged command that it would deliver again after the start.
    wait_for(lambda: not broker.sessions["dev"].flight, PATIENCE_S)


def test_command_interrupted_by_a_power_cut_is_marked_redelivered(make, broker, until, monkeypatch, published):
    flash = RamFlash(8, 4096)
    first = make(broker.port, flash)
    until(first, lambda: published("status"))
    broker.give("inflight/dev/command/ping", b"again", 2)
    with monkeypatch.context() as patch, pytest.raises(PowerCut):
        patch.setitem(sys.modules, "commands", commands)
        patch.setattr(commands, "execute", Mock(side_effect=PowerCut))
        until(first, lambda: False)
    cut_power(first.client)
    second = make(broker.port, flash)
    until(second, lambda: published("reply/ping"))
    (reply,) = published("reply/ping")
    assert reply["echo"] == "again" and reply["redelivered"]


def test_a_device_whose_journal_is_full_is_online_when_the_broker_has_taken_some(make, broker, until, published):
    """After a long outage; connecting takes longer than the step in which it happens, as over a real network. A reply
    that finds no space is counted."""
    app = make(broker.port, interval_ms=60_000)
    fits = app.journal.fits
    app.journal.fits = lambda kind, size: kind != OUT
    until(app, lambda: app.client.connected)
    full = app.full
    broker.give("inflight/dev/command/interval", b"500", 2)
    until(app, lambda: app.telemetry.ms == 500 and app.full > full)
    app.journal.fits = fits
    until(app, lambda: [body["state"] for body in published("status")] == ["online"])


# --- network, watchdog ---


def test_wifi_that_cannot_be_set_up_is_reported_and_joined(make, nobody, broker, until):
    """The clock is set from the configured host, and the watchdog is fed if there is one."""

    app = make(nobody, wifi_ssid="net", watchdog_ms=0)
    app.board.wifi = IDLE
    app.board.joins = ONLINE
    app.board.setup = Mock(side_effect=ValueError("no such country"))
    until(app, lambda: app.board.joined)
    assert "no such country" in app.errors["wifi"] and not app.board.fed
    app = make(broker.port, ntp="time.example", watchdog_ms=30_000)
    until(app, lambda: app.board.asked and len(app.board.fed) >= 3)
    assert set(app.board.asked) == {"time.example"} and set(app.board.fed) == {30_000}
