"""`inflight rollout` to unix boards over mosquitto: a good release reaches all, a bad one the first only."""

import contextlib
import io
import json
import random
import threading
import time

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from paho.mqtt import publish
from rich.console import Console

from host_tests.tools.command import inflight
from host_tests.tools.update.conftest import PATIENCE_S
from host_tests.waiting import wait_for
from inflight import __version__ as VERSION
from inflight_tools.update import rollout as rollouts
from inflight_tools.update.rollout import run
from inflight_tools.update.waves import Course
from tools.peers.subscriber import Subscriber

NAMES = [f"box{i}" for i in range(4)]


class Fleet:
    """Devices that are supervised by a thread of their own. kills_a_second: how many power cuts, at random."""

    def __init__(self, devices, kills_a_second=0):
        self.devices = devices
        self.cuts = 0
        self._rate = kills_a_second
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._supervise)

    def _supervise(self):
        dice = random.Random(1)
        due = time.monotonic()
        while not self._stop.wait(0.01):
            for device in self.devices:
                device.step()
            if self._rate and time.monotonic() > due:
                due = time.monotonic() + dice.expovariate(self._rate)
                dice.choice(self.devices).kill()
                self.cuts += 1

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


@pytest.fixture
def fleet(device_of):
    with Fleet([device_of(name) for name in NAMES]) as found:
        yield found


@pytest.fixture
def rollout(tmp_path, broker, release_of):
    """rollout(number, fault, words): result of the command, lines of JSON."""
    (tmp_path / "config.json").write_text(json.dumps({"host": "127.0.0.1", "port": broker.port}))

    def call(number=None, fault=None, *words, trial_s=1):
        if number:
            (tmp_path / "x.release").write_bytes(release_of(number, fault, trial_s=trial_s).pack())
            words = (str(tmp_path / "x.release"), *words)
        done = inflight("rollout", *words, "--config", tmp_path / "config.json", "--json")
        return done, [json.loads(line) for line in done.stdout.splitlines()]

    return call


def firmware(rollout):
    """{device: firmware}, as the fleet's own messages say."""
    _, lines = rollout()
    return {name: device["firmware"] for name, device in lines[-1]["devices"].items()} if lines else {}


def test_a_good_release_reaches_all_and_a_bad_one_only_the_first(fleet, rollout, release_of, key, tmp_path):
    wait_for(lambda: firmware(rollout) == dict.fromkeys(NAMES, VERSION), PATIENCE_S)
    done, lines = rollout(1, None, "--wave", "50")
    assert done.exit_code == 0, done.output
    good = [line["device"] for line in lines[:-1] if line["state"] == "good"]
    assert good[0] == "box0" and sorted(good) == NAMES
    begun = [line["device"] for line in lines[:-1] if line["state"] == "fetch"]
    assert begun[0] == "box0" and lines.index({"device": "box0", "state": "good"}) < min(
        lines.index({"device": name, "state": "fetch"}) for name in NAMES[1:]
    )
    wait_for(lambda: firmware(rollout) == dict.fromkeys(NAMES, VERSION + "+1"), PATIENCE_S)

    # Another release of that number is not the one that they run.
    assert {device["sha256"] for device in lines[-1]["devices"].values()} == {release_of(1).digest}
    done, lines = rollout(1, "crashes")
    why = "another release 1 runs there: give this one a higher number"
    assert done.exit_code == 1 and lines[-1]["skipped"] == dict.fromkeys(NAMES, why)
    assert lines[:-1] == [{"device": name, "state": "skipped", "reason": why} for name in NAMES]

    done, lines = rollout(2, "cannot connect")
    assert done.exit_code == 1 and lines[-1]["stopped"]
    assert {line["device"] for line in lines[:-1]} == {"box0"}
    assert lines[-2]["state"] == "bad" and lines[-2]["reason"] == "no connection"
    wait_for(lambda: firmware(rollout) == dict.fromkeys(NAMES, VERSION + "+1"), PATIENCE_S)

    # Who runs it already is left alone; patterns choose devices.
    done, lines = rollout(3, None, "--device", "box[01]", "--canary", "2")
    assert done.exit_code == 0 and {line["device"] for line in lines[:-1]} == {"box0", "box1"}
    done, lines = rollout(3, None)
    assert done.exit_code == 0 and {line["device"] for line in lines[:-1]} == {"box2", "box3"}

    # A release that was withdrawn is installed no more.
    private = tmp_path / "key"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    done, lines = rollout(4, None, "--withdraw", str(private))
    assert done.exit_code == 0 and lines[-1]["devices"]["box3"]["reason"] == "withdrawn", done.output
    done, lines = rollout(4, None, "--stop-at", "101")
    assert done.exit_code == 1 and {line["state"] for line in lines[:-1]} == {"bad"}


def told(broker, device, kind, **fields):
    publish.single(f"inflight/{device}/{kind}", json.dumps(fields), 1, True, port=broker.port)


def test_devices_that_are_offline_or_have_no_key_are_skipped_and_named(broker, rollout, release_of, tmp_path):
    digest = release_of(4).digest
    for device, fields in {
        "off": {"state": "offline"},
        "keyless": {"state": "online", "updates": False},
        "done": {"state": "offline"},
        "other": {"state": "online"},
        "failed": {"state": "asleep"},
    }.items():
        told(broker, device, "status", firmware="1", **fields)
    told(broker, "done", "release", release=4, state="good", sha256=digest)
    told(broker, "other", "release", release=4, state="good", sha256="0" * 64)
    told(broker, "failed", "release", release=4, state="bad", sha256="0" * 64)
    told(broker, "off", "release", release=3, state="good", sha256="0" * 64)
    done, lines = rollout(4)
    higher = "there: give this one a higher number"
    assert done.exit_code == 1 and lines[-1]["skipped"] == {
        "off": "it is offline",
        "keyless": "it has no update_keys",
        "other": f"another release 4 runs {higher}",
        "failed": f"another release 4 has failed {higher}",
    }
    of = "--config", tmp_path / "config.json"
    shown = inflight("rollout", tmp_path / "x.release", *of, "--device", "[ok]*").stdout
    assert "skipped: keyless (it has no update_keys), off (it is offline), other (another release 4 runs" in shown
    _, lines = rollout()
    listed = {name: device["status"] for name, device in lines[-1]["devices"].items()}
    assert (listed["off"], listed["keyless"], listed["failed"]) == ("offline", "online", "asleep")
    rows = [line.replace("│", " ").split()[:3] for line in inflight("rollout", *of).stdout.splitlines()]
    assert ["off", "offline", "1"] in rows and ["keyless", "online", "1"] in rows


def test_a_skipped_device_that_connects_meanwhile_is_the_last(broker, server, release_of):
    release = release_of(1)
    course = Course(1, [["box0"]], 10, 1000, release.digest)

    def report(device, state):
        if course.running == ["box0"]:  # until the late one has its turn, too
            told(broker, "late", "status", firmware="1", state="online")
            if "late" not in skipped:
                told(broker, "box0", "release", release=1, state="good", sha256=release.digest)
        elif course.running == ["late"]:
            told(broker, "late", "release", release=1, state="good", sha256=release.digest)

    skipped = {"late": "it is offline", "later": "it is offline"}
    run(server, rollouts.Fleet(server), course, release, report, lambda: False, skipped)
    assert course.states == {"box0": "good", "late": "good"} and skipped == {"later": "it is offline"}


def test_what_a_device_tells_does_not_command_the_terminal(tmp_path, broker):
    (tmp_path / "config.json").write_text(json.dumps({"host": "127.0.0.1", "port": broker.port}))
    device, evil = "inflight/box\u202e", "\x1b]0;owned\x07\x1b[2J"
    told = {"status": {"firmware": evil}, "release": {"release": 1, "state": evil, "reason": evil}}
    messages = [(f"{device}/{kind}", json.dumps(fields), 1, True) for kind, fields in told.items()]
    publish.multiple(messages, "127.0.0.1", broker.port)
    done = inflight("rollout", "--config", tmp_path / "config.json")
    assert "box" in done.stdout and not {"\x1b", "\x07", "\u202e"} & set(done.stdout), done.output


def test_the_progress_of_a_fetch_is_told(broker, server, release_of, capsys):
    """On a terminal by the last line, with all devices that fetch; as JSON a quarter a line."""
    release = release_of(1)
    course, told_by = Course(1, [["box\u202e"]], 10, 1000, release.digest), []
    size = len(release.image)
    steps = iter([*({"release": 1, "offset": -(-size * n // 10), "bytes": 1, "chunk": 1} for n in (0, 3, 4, 6)), None])

    class Status:
        def update(self, line):
            if not told_by or told_by[-1] != line.plain:
                told_by.append(line.plain)

    show = rollouts._Report(Console(file=io.StringIO()), course, True, Status(), lambda: {"box\u202e"})
    seen = []

    def report(device, state):
        show(device, state)
        percent = course.percent.get("box\u202e")
        if course.running and percent not in seen:  # the device's next message is of what it has got until then
            seen.append(percent)
            if step := next(steps):
                publish.single("inflight/box\u202e/want", json.dumps(step), 1, port=broker.port)
            else:
                told(broker, "box\u202e", "release", release=1, state="good", sha256=release.digest)

    run(server, rollouts.Fleet(server), course, release, report, lambda: False)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["state"], line.get("percent")) for line in lines] == [
        ("fetch", None), ("fetch", 30), ("fetch", 60), ("good", None),
    ]  # fmt: skip
    assert [line.partition("; ")[2] for line in told_by] == [
        "box\\u202e offline", *(f"box\\u202e {n} % offline" for n in (0, 30, 40, 60)), "",
    ]  # fmt: skip


def test_without_devices_or_broker_it_says_so(rollout, broker):
    done, _ = rollout(1)
    assert done.exit_code == 1 and "no devices at inflight/+/status" in done.stderr
    broker.kill()
    with contextlib.suppress(OSError):
        done, _ = rollout(1)
        assert done.exit_code == 1 and done.stderr.startswith("FAILED: ")


def test_a_rollout_that_ends_while_the_broker_is_down_withdraws_from_all(broker, server, release_of, monkeypatch):
    monkeypatch.setattr("inflight_tools.update.server._TIMEOUT_S", 0)
    course = Course(1, [["box0", "box1"]], 10, 100)
    with Subscriber(broker.port, "inflight/+/update/manifest") as seen:

        def stopping():
            if len(seen.messages) < 2:
                return False
            broker.stop()
            return True

        with pytest.raises(ValueError, match="still announced to box0, box1"):
            run(server, rollouts.Fleet(server), course, release_of(1), lambda *_: None, stopping)
        broker.start()
        boxes = {"box0", "box1"}
        wait_for(lambda: {m.topic.split("/")[1] for m in seen.messages if not m.payload} == boxes, PATIENCE_S)


@pytest.mark.long("INFLIGHT_UPDATES")
@pytest.mark.timeout(3600)
def test_a_fleet_that_is_killed_all_the_time_ends_on_one_release(device_of, rollout):
    """A hundred sensors get a good release, and then one that cannot connect, with a power cut each second."""
    names = [f"box{i:03}" for i in range(100)]
    devices = [device_of(name, interval_ms=5000, health_ms=60_000, timeout_ms=10_000) for name in names]
    with Fleet(devices) as starting:
        wait_for(lambda: firmware(rollout) == dict.fromkeys(names, VERSION), 600, pause_s=5)
    with Fleet(devices, kills_a_second=1) as fleet:
        done, lines = rollout(1, None, "--wave", "50", trial_s=10)
        print(f"good: {fleet.cuts} power cuts")
        assert done.exit_code == 0, [line for line in lines[:-1] if line["state"] in ("bad", "refused")]
        done, lines = rollout(2, "cannot connect", "--wave", "50", "--stop-at", "101", trial_s=10)
        print(f"bad: {fleet.cuts} power cuts in all")
        assert done.exit_code == 1
        assert {line["device"] for line in lines[:-1] if line["state"] == "bad"} == set(names)
    with Fleet(devices):
        wait_for(lambda: firmware(rollout) == dict.fromkeys(names, VERSION + "+1"), 600, pause_s=5)
    assert starting.cuts == 0 and fleet.cuts > 50
