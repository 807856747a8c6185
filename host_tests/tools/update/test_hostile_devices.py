"""Rollouts beside senders that want to end them: what one device sends, or somebody without the key, costs the others
nothing. A mosquitto, or a scripted broker; the devices are plain MQTT clients."""

import json
import struct
import threading
from unittest.mock import Mock

import paho.mqtt.client as paho
import pytest
from paho.mqtt import publish

from host_tests.tools.command import inflight
from host_tests.waiting import wait_for
from inflight_tools.boards.device.watch import Births, Watch
from inflight_tools.broker import Broker, broker_of
from inflight_tools.update import rollout as rollouts
from inflight_tools.update import server as servers
from inflight_tools.update.release import load, unpack
from inflight_tools.update.release import make as make_release
from inflight_tools.update.server import Server
from inflight_tools.update.waves import Course
from tools.peers.subscriber import Subscriber
from tools.reference.kinds import DISCONNECT, PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from tools.reference.wire import pingresp, puback, suback, unsuback
from tools.reference.wire import publish as delivery

PATIENCE_S = 240
MANIFEST = "inflight/{}/update/manifest"
NOT_SIGNED = "not signed by a key of this device"
FORGED = b'{"release":7}' + bytes(384)
FILES = {"start.mpy": b"x" * 400_000}


@pytest.fixture(scope="module")
def release(key):
    return make_release(FILES, key, 7, "unix")


def server_at(port):
    return Server(Broker("127.0.0.1", port, "inflight", None, None, None, None))


def want(**fields):
    return json.dumps({"release": 7, "offset": 0, "bytes": 64, "chunk": 32} | fields).encode()


# --- numbers ---

NUMBERS = ["1" * 400, "Infinity", "-Infinity", "NaN", "1e999", "-1", "0.5", "true", '"0"', "null", "[]", "4294967296"]


def test_no_number_of_a_device_ends_the_service_of_the_others(broker, server, release):
    server.announce("box", release)
    server.announce("evil", release)
    wanted = [want().replace(b'"offset": 0', f'"offset": {number}'.encode()) for number in NUMBERS]
    wanted += [want(chunk=chunk) for chunk in (0, 16_385)] + [want(offset=len(release.image) + 1)]
    wanted += ["[" * 100_000, '{"a":' * 20_000, "\xff", "5", '"' + "x" * 10_000 + '"']
    with Subscriber(broker.port, "inflight/+/update/chunk") as seen:
        publish.multiple([("inflight/evil/want", payload, 1) for payload in wanted], port=broker.port)
        publish.single("inflight/box/want", want(), 1, port=broker.port)
        wait_for(lambda: len(seen.messages) > 1, PATIENCE_S)
    assert {message.topic for message in seen.messages} == {"inflight/box/update/chunk"}
    assert server.refused == len(wanted)
    assert not server.ended


def test_an_error_that_nobody_thought_of_costs_one_message(broker, server, release, monkeypatch):
    fields_of = servers.fields_of

    def fails(payload):
        if b"boom" in payload:
            raise RuntimeError
        return fields_of(payload)

    monkeypatch.setattr(servers, "fields_of", fails)
    publish.multiple([("inflight/evil/status", "boom", 1), ("inflight/box/status", "{}", 1)], port=broker.port)
    wait_for(lambda: not server.events.empty(), PATIENCE_S)
    assert server.events.get()[0] == "box" and server.refused == 1


# --- what waits ---


def catch_up(broker):
    """The beginning of a Server's connection."""
    broker.welcome()
    p = broker.expect(SUBSCRIBE)
    broker.send(suback(p.mid, *[0] * len(p.filters)))
    broker.send(unsuback(broker.expect(UNSUBSCRIBE).mid))


def chunks_until_the_end(broker):
    """The chunks that the server sends before it disconnects."""
    found = []
    while (p := broker.receive()).kind != DISCONNECT:
        if p.kind == PUBLISH and p.topic.endswith("/chunk"):
            found.append(p)
    return found


@pytest.mark.parametrize("chunk", [1, 4096])
def test_what_is_queued_for_a_device_is_bounded(scripted, release, chunk):
    """A device asks and asks, and the broker acknowledges nothing."""
    asked, found = threading.Event(), []

    def script(broker):
        catch_up(broker)
        asked.wait(PATIENCE_S)
        message = want(chunk=chunk, bytes=64 * chunk)
        for _ in range(3000 if chunk == 1 else 100):
            broker.send(delivery("inflight/evil/want", message))
        broker.send(delivery("inflight/box/status", b"{}"))
        found.extend(chunks_until_the_end(broker))
        broker.cut()

    with scripted.play(script), server_at(scripted.port) as server:
        server.announce("evil", release)
        asked.set()
        wait_for_status(server)
    assert 64 * 100 > len(found) > 0 and sum(len(p.payload) for p in found) <= 256 << 10


def events_until(server, is_enough):
    """The events until that is true of them."""
    found = []

    def come():
        while not server.events.empty():
            found.append(server.events.get())
        return is_enough(found)

    wait_for(come, PATIENCE_S)
    return found


def wait_for_status(server, number=1):
    events_until(server, lambda found: sum(event[1] == "status" for event in found) >= number)


def test_what_is_queued_in_all_is_bounded_and_goes_on_with_the_acknowledgements(scripted, release, monkeypatch):
    monkeypatch.setattr(servers, "_ALL_CHUNKS", 100_000)
    names = [f"box{i}" for i in range(20)]
    asked, found = threading.Event(), []

    def script(broker):
        catch_up(broker)
        asked.wait(PATIENCE_S)
        for name in names:
            broker.send(delivery(f"inflight/{name}/want", want(chunk=1000, bytes=10_000)))
        broker.send(delivery("inflight/box0/status", b"{}"))
        while len(found) < 30:  # what was queued
            p = broker.receive()
            if p.topic.endswith("/chunk"):
                found.append(p)
        broker.send(*(puback(p.mid) for p in found))
        broker.send(delivery(f"inflight/{names[-1]}/want", want(chunk=1000, bytes=3000)))
        broker.send(delivery("inflight/box0/status", b"{}"))
        found.extend(chunks_until_the_end(broker))
        broker.cut()

    with scripted.play(script), server_at(scripted.port) as server:
        for name in names:
            server.announce(name, release)
        asked.set()
        wait_for_status(server, 2)
    last = [p for p in found if names[-1] in p.topic]
    assert len(found) - len(last) == 100_000 // (1008 + servers._OF_A_CHUNK)
    assert [struct.unpack("<II", p.payload[:8]) for p in last] == [(7, 0), (7, 1000), (7, 2000)]


def test_a_device_that_floods_loses_its_own_events_only(broker, server):
    flood = [("inflight/evil/status", json.dumps({"firmware": "x" * 5000}), 1)] * 500
    publish.multiple([*flood, ("inflight/box/release", '{"release": 7, "state": "good"}', 1)], port=broker.port)
    wait_for(lambda: server.refused >= 500 - 64, PATIENCE_S)
    events = events_until(server, lambda found: "box" in [event[0] for event in found])
    assert len(events) == 65 and max(len(str(event)) for event in events) < 1000


# --- the end of the thread ---


@pytest.fixture
def fatal(scripted, monkeypatch):
    """A connection in which Paho's thread ends with an error, at a PINGRESP."""

    def script(broker):
        catch_up(broker)
        broker.send(delivery("inflight/box/status", b'{"firmware": "1"}'), pingresp())
        chunks_until_the_end(broker)
        broker.cut()

    monkeypatch.setattr(paho.Client, "_handle_pingresp", Mock(side_effect=IndexError("a defect")))
    with scripted.play(script):
        yield scripted


def test_a_rollout_whose_connection_has_ended_says_so(fatal, release):
    course = Course(7, [["box"]], 10, 1000)
    with server_at(fatal.port) as server:
        fleet = rollouts.Fleet(server)
        with pytest.raises(ValueError, match="still announced to box, since the connection .* has ended .IndexError"):
            rollouts.run(server, fleet, course, release, lambda *_: None, lambda: False)


def test_a_monitor_whose_connection_has_ended_says_so(fatal, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"host": "127.0.0.1", "port": fatal.port}))
    done = inflight("board", "monitor", "--config", tmp_path / "config.json")
    assert done.exit_code == 1 and "has ended (IndexError: a defect)" in done.stdout


def test_no_number_ends_the_wait_for_a_birth(broker):
    births = Births()
    births.arm()
    status = '{"state": "online", "firmware": "1", "seq": 1, "epoch": %s}'
    with Watch(broker_of({"host": "127.0.0.1", "port": broker.port}), births.message, on_end=births.end) as watch:
        watch.follow("box", ["status"])
        watch.catch_up(PATIENCE_S)
        publish.multiple([("inflight/box/status", status % number, 1) for number in (*NUMBERS, "5")], port=broker.port)
        assert births.wait(PATIENCE_S)["epoch"] == 5


# --- senders without the key ---


class Device:
    """Takes announcements as a device does: it refuses what is not signed, without a number, and is good with
    `release`, when it has come so often."""

    def __init__(self, port, name, release, often=1):
        self.seen = []
        self._base, self._release, self._often = f"inflight/{name}/", release, often
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2, name)
        self._client.on_message = self._take
        self._client.connect("127.0.0.1", port)
        self._client.subscribe(self._base + "update/manifest", 1)
        self._tell("status", firmware="1")

    def _tell(self, topic, **fields):
        self._client.publish(self._base + topic, json.dumps(fields), 1, fields.get("release", True) is not None)

    def _take(self, client, userdata, message):
        if not message.payload:
            return
        self.seen.append(message.payload)
        if message.payload != self._release.announcement:
            self._tell("release", release=None, state="refused", reason=NOT_SIGNED)
        elif self.seen.count(message.payload) < self._often:
            self._tell("release", release=7, state="fetch")
        else:
            self._tell("release", release=7, state="good")

    def __enter__(self):
        self._client.loop_start()
        return self

    def __exit__(self, *_):
        self._client.disconnect()
        self._client.loop_stop()


@pytest.mark.parametrize("forged", [FORGED, b"", b"\xff"], ids=["unsigned", "empty", "nothing"])
def test_a_rollout_goes_on_however_often_its_announcement_is_replaced(broker, server, release, monkeypatch, forged):
    """The announcement is retained, so whoever may publish to the topic replaces it. The server notices, tells it, and
    announces the release again; the device, which needs it five times here, is good in the end."""
    monkeypatch.setattr(servers, "_PAUSE_S", (0, 0))
    course, reported = Course(7, [["box"]], 10, 1000), []
    fleet = rollouts.Fleet(server)

    def report(device, state):
        if device:
            reported.append((state, course.reasons.get(device)))
            if state in ("fetch", rollouts.AGAIN):
                publish.single(MANIFEST.format("box"), forged, 1, True, port=broker.port)

    with Device(broker.port, "box", release, often=5) as device:
        rollouts.run(server, fleet, course, release, report, lambda: False)
    assert (course.states, course.stopped) == ({"box": "good"}, False), reported
    assert device.seen.count(release.announcement) >= 5
    again = [why for state, why in reported if state == rollouts.AGAIN]
    assert len(again) >= 4 and set(again) <= {"another sender has replaced the announcement", NOT_SIGNED}
    assert fleet.outcomes == {"box": {"release": 7, "state": "good"}}


@pytest.mark.parametrize(
    "told",
    [
        {"release": None, "state": "refused", "reason": NOT_SIGNED},
        {"release": 7, "state": "fetch", "reason": "Damaged: index"},
    ],
)
def test_what_others_make_a_device_say_is_no_failure(broker, server, release, told):
    """A course goes on, and the release is announced again after pauses that grow."""
    course, fleet = Course(7, [["box"]], 10, 1000), rollouts.Fleet(server)
    assert course.next_wave(0) == ["box"]
    server.announce("box", release)
    at = []

    def tell():
        publish.single("inflight/box/release", json.dumps(told), 1, port=broker.port)
        event = fleet.next(PATIENCE_S)
        course.message("box", event[2])

    for now in range(1000):
        if not at or server.restore(now):
            at.append(now)
            tell()
        if len(at) == 10:
            break
    assert [after - before for before, after in zip(at[1:], at[2:], strict=False)] == [1, 2, 4, 8, 16, 32, 64, 128]
    assert not course.failed and not course.stopped and course.running == ["box"]
    course.delay("box", told["reason"])
    assert course.expire(1000) == ["box"] and course.reasons["box"] == f"no outcome in time; {told['reason']}"
    assert not course.failed
    publish.single("inflight/box/release", json.dumps(told), 1, port=broker.port)
    publish.single("inflight/box/status", "{}", 1, port=broker.port)  # a sensor that sleeps is there now
    while server.events.get(PATIENCE_S)[1] != "status":
        pass
    assert server.restore(now + 1) == {"box": told["reason"]}


def test_an_old_announcement_that_is_sent_again_hides_no_good_release(broker, server):
    fleet = rollouts.Fleet(server)
    for number, state in ((7, "good"), (6, "refused")):
        publish.single("inflight/box/release", json.dumps({"release": number, "state": state}), 1, port=broker.port)
        assert fleet.next(PATIENCE_S)
    assert fleet.outcomes["box"]["release"] == 7


def test_a_device_that_asks_for_parts_is_announced_to_without_a_long_pause(broker, server, release):
    server.announce("box", release)
    for now in range(5):
        publish.single(MANIFEST.format("box"), b"", 1, True, port=broker.port)
        publish.single("inflight/box/want", want(), 1, port=broker.port)
        assert server.events.get(PATIENCE_S)[1] == "want"
        assert server.restore(now) == {"box": "another sender has replaced the announcement"}


def test_a_replaced_announcement_of_a_device_without_a_rollout_is_left_alone(broker, server):
    publish.single(MANIFEST.format("box"), FORGED, 1, True, port=broker.port)
    publish.single("inflight/box/status", "{}", 1, port=broker.port)
    assert server.events.get(PATIENCE_S)[1] == "status" and server.restore(0) == {}


def test_a_release_that_was_changed_in_its_file_is_not_rolled_out(release, tmp_path):
    packed = release.pack()
    head = len(packed) - len(release.image)
    for at in (head, head + 40, -1):
        changed = bytearray(packed)
        changed[at] ^= 1
        with pytest.raises(ValueError, match="incomplete or changed: copy it again"):
            unpack(bytes(changed))
    for cut in (0, 20, 40, 500, -1):
        (tmp_path / "cut").write_bytes(packed[:cut])
        with pytest.raises(ValueError, match="inflight release|copy it again"):
            load(tmp_path / "cut")
    assert unpack(packed) == release
