"""`inflight device`: a unix board that commands show, change, restart and update; made-up devices, which answer what no
test can wait for, or what no device would."""

import json

import pytest

from host_tests.tools.command import inflight
from host_tests.tools.update.conftest import PATIENCE_S
from host_tests.waiting import wait_for
from inflight import __version__ as VERSION
from inflight_tools.boards.device.link import DeviceError
from inflight_tools.devices import change
from inflight_tools.devices.roster import Device, NotYet

WAIT = "--timeout", PATIENCE_S
BIRTH = "status", {"state": "online", "firmware": "1", "seq": 2, "epoch": 1}


def listed(device, *words):
    """{name: fields} of `inflight device list`."""
    done = device("list", "--json", *words)
    return {fields["device"]: fields for fields in map(json.loads, done.stdout.splitlines())}


def test_a_device_is_shown_changed_restarted_and_updated(box, device, release_of, tmp_path):
    wait_for(lambda: listed(device), PATIENCE_S)
    found = listed(device, *WAIT)["box"]
    assert (found["state"], found["firmware"], found["board"], found["wrong"]) == ("online", VERSION, "unix", [])
    assert found["started"] and found["readings"] and all(reading["time"] for reading in found["readings"])

    done = device("set", "b", "group=green", "interval_ms=200", "ha=true", "ntp=null", "--yes", *WAIT)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        'group: not known -> "green"',
        "interval_ms: not known -> 200",
        "ha: not known -> true",
        'ntp: not known -> "pool.ntp.org" (default)',
        "box has taken the change, and is there again",
    ]
    done = device("set", "box", "host=other", "--yes", *WAIT)
    refusal = "password: write it as well, or null: with another host it may go elsewhere"
    assert (done.exit_code, done.stderr) == (1, f"FAILED: box refuses: {refusal}\n")

    done = device("show", "box", "--config", box.home / "config.json", *WAIT)
    shown = {row[0]: row[-1] for row in (line.strip(" │").split() for line in done.stdout.splitlines()) if row}
    assert (shown["group"], shown["interval_ms"], shown["password"]) == ('"green"', "200", '"(secret)"'), shown
    done = device("set", "box", "interval_ms=100", "host=other", "--config", box.home / "config.json", *WAIT)
    assert (done.exit_code, done.stderr) == (2, f"FAILED: {refusal}\n")  # by the check of the device, before it is sent

    starts = box.starts
    assert device("restart", "box", *WAIT).exit_code == 0 and box.starts > starts
    assert "info command log" in device("log", "box", *WAIT).stdout
    assert "info command log" in json.loads(device("log", "box", "--json", *WAIT).stdout)["lines"][-1]

    file, own = tmp_path / "backup.json", json.loads((box.home / "config.json").read_text())
    assert device("backup", "box", file, *WAIT).exit_code == 0 and file.stat().st_mode & 0o777 == 0o600
    fields = json.loads(file.read_text())
    assert fields | {"password": "the password"} == own | {"device": "box"} and "password" not in fields
    assert "is there already, perhaps with secrets" in device("backup", "box", file, *WAIT).stderr
    assert device("restore", "box", file, *WAIT).stdout == "box has this configuration already\n"
    del fields["group"]
    file.write_text(json.dumps(fields | {"interval_ms": 300, "password": "another"}))
    done = device("restore", "box", file, "--yes", *WAIT)
    lines = {'group: "green" -> none', "interval_ms: 200 -> 300", 'password: none -> "(secret)"'}
    assert lines < {*done.stdout.splitlines()}, done.output
    now = json.loads((box.home / "config.json").read_text())
    assert (now["interval_ms"], now["password"], "group" in now) == (300, "another", False)

    (tmp_path / "x.release").write_bytes(release_of(1).pack())
    done = device("update", "box", tmp_path / "x.release", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])["devices"]["box"]["state"] == "good"


def test_a_configuration_is_restored(answering, device, tmp_path):
    got = answering("attic", ("reply", {"ok": True}), BIRTH, ("health", {"error": {"text": "RuntimeError: a bug"}}))
    file = tmp_path / "attic.json"
    fields = {"host": "b", "wifi_ssid": "home", "wifi_key": "the-key-1"}
    file.write_text(json.dumps({"device": "attic", "tls_ca": "/ca.der"} | fields))
    done = device("restore", "attic", file, stdin="y\n")
    assert done.exit_code == 0 and "only a cable changes them: tls_ca\n" in done.stderr
    assert 'wifi_ssid: not known -> "home"\nwifi_key: not known -> "(secret)"\n' in done.stdout
    sent = [json.loads(payload or "null") for _, payload in got]
    assert sent == [None, fields]
    answering("cellar")
    done = device("restore", "cellar", file)
    assert done.exit_code == 2 and f"{file} is of the device attic, not of cellar" in done.stderr
    file.write_text("[]")
    assert device("restore", "attic", file).exit_code == 2


def test_a_secret_is_asked_for_and_not_shown(answering, device):
    got = answering("attic", ("reply", {"ok": True}), BIRTH, ("health", {}))
    typed = "the-key-1\nthe-key-1\nthe,pass\nthe,pass\ny\n"
    done = device("set", "attic", "wifi_ssid=home", "wifi_key", "password=", "user=12", stdin=typed)
    assert done.exit_code == 0, done.output
    fields = {"wifi_ssid": "home", "wifi_key": "the-key-1", "password": "the,pass", "user": "12"}
    assert [(name, json.loads(payload)) for name, payload in got] == [("set", fields)]
    assert "the-key-1" not in done.output and "the,pass" not in done.output


def test_what_was_wrong_before_does_not_prevent_a_change(answering, device, tmp_path):
    got = answering("attic", ("reply", {"ok": True}), BIRTH, ("health", {}))
    file = tmp_path / "attic.json"
    wrong = {"host": "127.0.0.1", "device": "attic", "interval_ms": 1000, "sensors": [{"driver": "dht22", "pin": 4}]}
    file.write_text(json.dumps(wrong))
    done = device("set", "attic", "group=a", "--yes", "--config", file)
    told = "this was wrong before, and stays so: sensors: dht22: it measures each 2000 ms at most: interval_ms is 1000"
    assert (done.exit_code, done.stderr, len(got)) == (0, told + "\n", 1)
    done = device("set", "attic", "interval_ms=500", "--yes", "--config", file)
    assert done.exit_code == 2 and "interval_ms is 500" in done.stderr
    second = [*wrong["sensors"], {"driver": "led", "pin": 4}]
    done = device("set", "attic", f"sensors={json.dumps(second)}", "--yes", "--config", file)
    assert done.exit_code == 2 and "sensors: led: unknown driver" in done.stderr and len(got) == 1


def test_a_broker_of_level_5_over_websocket(mosquitto):
    broker = mosquitto("protocol websockets")
    place = f"127.0.0.1:{broker.port}"
    done = inflight("device", "list", "--broker", place, "--websocket", "/", "--protocol-level", "5")
    assert done.exit_code == 1 and done.stderr == f"FAILED: no devices at inflight/+/status on {place}\n"


def test_what_a_person_does_not_confirm_is_not_sent(answering, device):
    got = answering("attic")
    assert device("set", "attic", "group=a", stdin="n\n").exit_code == 1 and not got


def test_settings_that_the_device_gives_up(answering, device):
    why = "set: no connection with the changed settings, the old ones are back"
    answering("attic", ("reply", {"ok": True}), BIRTH, ("health", {"error": {"text": why, "at": None}}))
    done = device("set", "attic", "group=a", "--yes")
    assert done.exit_code == 1 and done.stderr == f"FAILED: attic: {why}\n"
    # Of those before, which it was switched off with: it has these.
    has = {"ok": True, "config": {"host": "b", "group": "a"}}
    answering("barn", ("reply", has), BIRTH, ("health", {"error": {"text": why, "at": None}}))
    assert device("set", "barn", "group=a", "wifi_key=the-key-1", "--yes").exit_code == 0
    assert (
        device("set", "barn", "group=b", "--yes").exit_code
        == device("set", "barn", "wifi_key=key-2222", "--yes").exit_code
        == 1
    )
    answering("cellar", ("reply", {"ok": True}))
    done = device("set", "cellar", "group=a", "--yes", "--timeout", "0.1")
    assert done.exit_code == 1 and "cellar has not come back within 0.1 s; settings with which" in done.stderr
    answering("deaf")
    done = device("log", "deaf", "--timeout", "0.1")
    assert done.exit_code == 1 and "no answer of deaf within 0.1 s: it is online; may this user publish" in done.stderr


def test_settings_that_a_device_gives_up_before_it_sleeps():
    """What it tells counts, although it cannot be asked what it has."""

    class Asleep:
        def change(self, *_):
            return "set: no connection"

        def configuration(self, *_):
            raise NotYet("no answer")

    with pytest.raises(DeviceError, match="attic: set: no connection"):
        change.send(Asleep(), Device("attic"), {"group": "a"}, 1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("set attic intervall_ms=5", 'unknown field "intervall_ms": did you mean "interval_ms"?'),
        ("set attic wifi_password=", 'there is no field wifi_password: did you mean "wifi_key"?'),
        ('set attic sensors=[{"driver":"counter","pin":4,"edge":"both"}]', "sensors: counter: edge: write"),
        ('set attic ha="true"', "ha: write true without quotes"),
        ("set attic interval_ms=fast", "interval_ms: write a whole number from 100 to 86400000"),
        ("set attic interval_ms", "interval_ms: write a whole number from 100 to 86400000"),
        ("set attic group", "group: write group=value, or group=null to remove it"),
        ("set attic log=loud", 'log: write "info", "error" or "off"'),
        ("set attic tls_ca=/x", "tls_ca: a file belongs to it"),
        ('set attic actuators=[{"driver":"pwm","pin":4,"freq":1e400}]', "actuators: a number is too large, or none"),
        ("set attic device=cellar", "device: the journal belongs to the present name"),
        ("set attic group=a group=b", "group is there twice: name it once"),
        ("set attic group=\udc80", "not UTF-8"),
        ("set xyz group=a", "there is no device xyz: there is attic, cellar, cellar-2"),
        ("set cellar-3 group=a", "there is no device cellar-3: there is cellar-2, cellar"),
        ("log c", "c may be cellar, cellar-2: write more of it"),
        ("show +", "there is no device +: there is"),
        ("restart attic/command", "there is no device attic/command: there is attic"),
    ],
)
def test_a_wrong_argument_is_told_in_one_line(told, device, words, text):
    for name in ("attic", "cellar", "cellar-2"):
        told(name, "status", state="online", firmware="1")
    done = device(*words.split(" "), *(["--yes"] if words.startswith("set") else []))
    assert done.exit_code == 2 and done.stderr.startswith(f"FAILED: {text}"), done.output
    assert done.stderr.count("\n") == 1 and not done.stdout


def test_what_depends_on_fields_that_are_not_known_is_left_to_the_device(answering, device):
    got = answering("attic", ("reply", {"ok": False, "error": "password needs user: write both"}))
    words = ["password=x", "wake_on_pin=4", "expiry_s=9", "wifi_key=the-key-1", 'sensors=[{"driver":"mine"}]']
    words += ["interval_ms=null", "port=8883", "watchdog_ms=8000"]
    for word in words:
        done = device("set", "attic", word, "--yes")
        assert (done.exit_code, done.stderr) == (1, "FAILED: attic refuses: password needs user: write both\n")
    assert len(got) == len(words)


def test_devices_that_are_not_there(told, device):
    told("off", "status", state="offline", firmware="1")
    told("sleeper", "status", state="asleep", firmware="1", next_s=600)
    told("off", "release", release=7, state="bad", reason="no connection")
    told("sleeper", "state", readings={"temperature": 21.5}, t=1_790_000_000)
    found = listed(device)
    assert found["off"]["wrong"] == ["release 7 is bad: no connection"] and not found["off"]["readings"]
    reading = {"name": "temperature", "unit": "", "value": 21.5, "time": "2026-09-21 14:13:20Z"}
    assert (found["sleeper"]["next_s"], found["sleeper"]["readings"]) == (600, [reading])
    done = device("restart", "off", "--timeout", "0.1")
    later = "it is offline, and gets the command when it connects, if the broker keeps its session"
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [f"off: {later}", f"FAILED: no answer of off within 0.1 s: {later}"]
    words = "group=" + "a" * 64, "root=" + "b" * 64, "host=" + "c" * 400
    done = device("set", "sleeper", *words, "--yes", "--timeout", 1)
    assert "it is asleep, and gets the command when it reports next, 600 s after its last report" in done.stderr
    assert "bytes are more than it receives, unless its `buffer` is larger" in done.stderr


def test_what_others_publish_does_not_command_the_terminal(answering, told, device):
    evil = "\x1b]0;owned\x07\u202e"
    told("box\u202e", "status", state=evil, firmware=[evil], group={"a": evil}, safe=True)
    told("box\u202e", "state", readings={evil: {"a": evil}}, t="now")
    for payload in ("[" * 8000, "\xff", '{"state": NaN}', "[]", "x" * 9000):
        told("raw", "status", payload)
    answering("attic", ("reply", {"ok": False, "error": evil}), ("reply", {"ok": True, "number": "1"}))
    answering("lines", ("reply", {"ok": True, "lines": [evil, 5]}))
    shown = [device("list", "--timeout", "0.1"), device("show", "box", "--timeout", "0.1")]
    shown += [device("log", "attic"), device("log", "lines")]
    assert [done.exit_code for done in shown] == [0, 0, 1, 0], [done.output for done in shown]
    assert not any("\x1b" in done.output or "\u202e" in done.output for done in shown)
    assert "safe mode" in shown[1].stdout and "box\\u202e" in shown[1].stdout
    assert set(listed(device, "--timeout", "0.1")) == {"attic", "box\u202e", "lines"}
