"""`inflight serve` with a broker alone: pages that devices make with their own messages."""

import contextlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from host_tests.tools.command import inflight
from host_tests.tools.devices.test_devices import BIRTH
from host_tests.tools.fleet.console.asked import Asked
from host_tests.tools.fleet.report.reading import read
from host_tests.waiting import wait_for
from inflight_tools.boards.device.watch import Watch
from inflight_tools.broker import Broker
from inflight_tools.devices.roster import KINDS, Connection
from inflight_tools.fleet.console import devices
from inflight_tools.fleet.console.access import Access
from inflight_tools.fleet.console.devices import DevicePages
from inflight_tools.fleet.console.server import TEXT

EVIL = "</script><script>alert(1)</script>\x1b"
PATIENCE_S = 60


@contextlib.contextmanager
def serving(broker, token=None, releases=None):
    """A console of the devices at a mosquitto."""
    at = Broker("127.0.0.1", broker.port, "inflight", None, None, None, None)
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(Connection(at, *KINDS[2:]))
        found = stack.enter_context(DevicePages(connection, token, releases))
        more = {"changes": found.changes, "token": token}
        yield stack.enter_context(contextlib.closing(Asked(found.pages, Access("127.0.0.1"), **more)))


@pytest.fixture
def served(broker):
    with serving(broker) as found:
        yield found


@pytest.fixture
def changing(broker):
    """One with forms, whose token is "t"."""
    with serving(broker, "t") as found:
        yield found


def rows(served):
    """{device: text of its row}"""
    page = read(served.get()[2])
    return {row.one("a").text: row.text for row in page.one(id="roster-table").one("tbody").all("tr")}


def test_the_pages_follow_what_devices_tell(served, told):
    assert rows(served) == {}
    fresh = served.get("/fresh")[2]
    told("attic", "status", state="online", firmware="1")
    wait_for(lambda: served.get("/fresh")[2] != fresh, PATIENCE_S)
    assert "online, since " in rows(served)["attic"] and "not told yet" in rows(served)["attic"]
    told("attic", "health", up=5, errors={"dht22": EVIL})
    pack = '[{"bn":"urn:dev:mac:a:","bt":0,"seq":3,"epoch":4,"n":"temperature","u":"Cel","v":21.5}]'
    told("attic", "telemetry", pack)
    wait_for(lambda: "temperature=21.5 Cel" in rows(served)["attic"], PATIENCE_S)
    told("cellar", "status", state="online", firmware="1")
    told("cellar", "state", readings={"x": 1}, t=4_102_444_800)  # by its own clock
    wait_for(lambda: "x=1, 2100-01-01 00:00:00Z" in rows(served).get("cellar", ""), PATIENCE_S)
    assert read(served.get()[2]).one(id="trouble").text.endswith("connected")
    status, _, text = served.device("attic")
    page = read(text)
    assert status == 200 and page.one("h1").text == "attic" and "dht22: </script>" in page.one(id="told-table").text
    assert len(list(page.all("script"))) == 1 and "\x1b" not in text
    fresh = served.get("/fresh?name=attic")[2]
    assert page.one("body").attributes["data-fresh"] == fresh
    all_of_them = served.get("/fresh")[2]
    told("cellar", "health", up=5)
    wait_for(lambda: served.get("/fresh")[2] != all_of_them, PATIENCE_S)
    assert served.get("/fresh?name=attic")[2] == fresh  # which shows nothing of another device


def test_a_broker_that_goes_away_is_told_and_comes_back(served, told, broker):
    told("attic", "status", state="online", firmware="1")
    wait_for(lambda: rows(served), PATIENCE_S)
    broker.kill()
    wait_for(lambda: "connected" not in read(served.get()[2]).one(id="trouble").text, PATIENCE_S)
    assert set(rows(served)) == {"attic"}
    broker.start()
    wait_for(lambda: read(served.get()[2]).one(id="trouble").text.endswith("connected"), PATIENCE_S)
    told("cellar", "status", state="online", firmware="1")
    wait_for(lambda: set(rows(served)) == {"attic", "cellar"}, PATIENCE_S)


CONFIG = {"host": "b", "user": EVIL[:-1], "interval_ms": 60_000, "ha": True, "sensors": [{"driver": "dht22", "pin": 4}]}
CONFIG["of_newer_firmware"] = 1


def posted(console, device, **fields):
    """The page after a form of a device was sent."""
    status, _, text = console.post(f"/device?name={device}", {"token": "t", **fields})
    assert status == 200, text
    return read(text)


def said(console, device, **fields):
    return posted(console, device, **fields).one(id="outcome").text.strip()


def told_of(console, device):
    """{name: text} of what the page of a device tells."""
    page = read(console.device(device)[2]).one(id="told-table")
    return {row.one("th").text: row.one("td").text.strip() for row in page.all("tr")}


def filled(page):
    """{name: text} of the form that a page shows."""
    return {one.attributes["name"]: one.attributes.get("value", "") for one in page.one("form").all("input")
            if one.attributes.get("type") != "checkbox"}  # fmt: skip


def wrong(page):
    return {one.one("input").attributes["name"]: one.one("strong").text for one in page.all("label")
            if list(one.all("strong"))}  # fmt: skip


@pytest.fixture
def attic(changing, answering):
    """What a device with CONFIG gets from a console that may change it."""
    got = answering("attic", ("reply", {"ok": True, "config": CONFIG, "lines": ["1 a", EVIL]}), BIRTH, ("health", {}))
    wait_for(lambda: rows(changing), PATIENCE_S)
    return got


def test_a_form_changes_a_device(changing, attic):
    assert said(changing, "attic", act="restart") == "It has restarted."
    assert said(changing, "attic", act="log").splitlines() == ["1 a", EVIL.replace("\x1b", "\\x1b")]
    page = posted(changing, "attic", act="settings")
    form = filled(page)
    shown = {name: text for name, text in form.items() if text and name not in ("token", "of")}
    entry = {"sensors.0.driver": "dht22", "sensors.0.pin": "4"}
    assert shown == {"host": "b", "user": EVIL[:-1], "interval_ms": "60000", "ha": "true"} | entry
    assert not {"tls_ca", "update_keys", "setup", "device"} & form.keys()
    assert "100 to 86400000: time between readings" in page.one(id="about-interval_ms").text
    form |= {"interval_ms": "5000", "ha": "", "group": "5", "password": "the-key-\u200d", "sensors.0.name": "a"}
    told = ["interval_ms: 60000 -> 5000", "ha: true -> none", 'group: none -> "5"', 'password: none -> "(secret)"']
    page = posted(changing, "attic", act="check", **form)
    assert {*told} < {*page.one(id="outcome").text.splitlines()} and filled(page) == form
    assert said(changing, "attic", act="save", **form).endswith("It has taken the change, and is there again.")
    sensors = [{"driver": "dht22", "pin": 4, "name": "a"}]
    sent = {"interval_ms": 5000, "ha": None, "group": "5", "password": "the-key-\u200d", "sensors": sensors}
    assert [json.loads(payload) for command, payload in attic if command == "set" and payload] == [sent]


def test_entries_are_added_and_removed(changing, attic):
    form = filled(posted(changing, "attic", act="settings"))
    page = posted(changing, "attic", act="add", add="actuators switch", **form)
    form = filled(page) | {"actuators.0.pin": "GP5", "actuators.0.restore": "on", "remove.sensors.0.": "on"}
    assert "actuators.0.invert" in form and not list(page.all(id="outcome"))
    assert said(changing, "attic", act="save", **form).startswith("sensors: [")
    switch = {"driver": "switch", "pin": "GP5", "restore": "on"}
    assert json.loads(attic[-1][1]) == {"sensors": None, "actuators": [switch]}
    assert said(changing, "attic", act="add", add="actuators teapot") == "Failed: choose a driver of the list"


def test_errors_stand_beside_their_fields(changing, attic):
    form = filled(posted(changing, "attic", act="settings")) | {"interval_ms": "5", "keepalive": "often", "ntp": EVIL}
    page = posted(changing, "attic", act="save", **form | {"sensors.0.pin": "4.5"})
    found = wrong(page)
    assert found.keys() == {"interval_ms", "keepalive", "ntp"} and filled(page)["keepalive"] == "often"
    assert found["interval_ms"] == "interval_ms: write a whole number from 100 to 86400000"
    assert "sensors: dht22: pin" in page.one("fieldset").one("strong").text
    form |= {"interval_ms": "1000", "keepalive": "", "ntp": "", "sensors.0.pin": "5", "expiry_s": "5"}
    assert "expiry_s needs MQTT 5" in wrong(posted(changing, "attic", act="check", **form))["expiry_s"]
    many = {
        f"sensors.{n}.{field}": text for n in range(1, 9) for field, text in (("driver", "adc"), ("pin", f"{20 + n}"))
    }
    form |= {"expiry_s": "", "interval_ms": "9000"} | many | {f"sensors.{n}.name": f"{n}" * 32 for n in range(1, 9)}
    assert "the device takes 505" in said(changing, "attic", act="save", **form)
    form |= {f"remove.sensors.{n}.": "on" for n in (6, 7, 8)}
    assert '"pin": 25, "name": "5' in said(changing, "attic", act="check", **form)  # the whole of a long line
    assert not [payload for _, payload in attic if payload]


def test_a_backup_is_saved_and_filled_in(changing, attic):
    status, headers, text = changing.post("/device?name=attic", {"token": "t", "act": "backup"})
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''attic.json"
    assert status == 200 and json.loads(text) == {"device": "attic"} | CONFIG
    page = posted(changing, "attic", act="fill", file=text.replace("60000", "7000"))
    assert filled(page)["interval_ms"] == "7000" and not list(page.all(id="outcome"))
    text = text.replace("{", '{"tls_ca": "/ca.der",', 1)
    assert said(changing, "attic", act="fill", file=text) == "Not filled in, since only a cable changes them: tls_ca"
    for other in ("{", "[]", text.replace('"attic"', '"cellar"')):
        assert "this is no backup of attic" in said(changing, "attic", act="fill", file=other)


def test_a_release_is_installed(broker, box, release_of, tmp_path, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as containers set it; a page is no terminal
    (tmp_path / "unix-1.release").write_bytes(release_of(1).pack())
    (tmp_path / "wrong.release").write_bytes(b"")

    def told():
        return told_of(console, "box")

    with serving(broker, "t", tmp_path) as console:
        wait_for(lambda: rows(console), PATIENCE_S)
        form = read(console.device("box")[2]).one("form")
        assert [one.text for one in form.all("option")] == ["unix-1.release", "wrong.release"]
        assert "not a release" in said(console, "box", act="update", release="wrong.release")
        assert "choose a release" in said(console, "box", act="update", release="../unix-1.release")
        assert said(console, "box", act="update", release="unix-1.release").startswith("It begins")
        assert "is under way" in said(console, "box", act="update", release="unix-1.release")
        fresh = console.get("/fresh")[2]
        wait_for(lambda: told()["update"].endswith("box: good"), PATIENCE_S, told)
        assert console.get("/fresh")[2] != fresh
        again = partial(said, console, "box", act="update", release="unix-1.release")
        wait_for(lambda: again().startswith("It begins"), PATIENCE_S)
        wait_for(lambda: told()["update"] == "this release is good there already", PATIENCE_S, told)


def test_a_device_that_does_not_answer(changing, answering, told, monkeypatch):
    got = answering("attic", ("reply", {"ok": False, "error": EVIL}))
    wait_for(lambda: rows(changing), PATIENCE_S)
    assert said(changing, "attic", act="restart").startswith("Failed: attic refuses: </script>")
    told("attic", "status", state="offline", firmware="1")
    wait_for(lambda: "offline" in rows(changing)["attic"], PATIENCE_S)
    page = posted(changing, "attic", act="settings")
    assert "does not answer now" in page.one(id="outcome").text and not filled(page)["host"]
    assert said(changing, "attic", act="check", interval_ms="5000") == "interval_ms: not known -> 5000"
    told("cellar", "status", state="asleep", next_s=60)
    wait_for(lambda: "cellar" in rows(changing), PATIENCE_S)
    assert said(changing, "cellar", act="backup").startswith("Failed: it does not answer now")
    monkeypatch.setattr(devices, "_TIMEOUT_S", 0.01)
    problem = said(changing, "cellar", act="restart")
    assert problem.startswith("Not yet: no answer of cellar within 0.01 s: it is asleep")
    assert changing.post("/device?name=nobody", {"token": "t", "act": "restart"})[0] == 404
    assert changing.post("/", {"token": "t"})[0] == 404 and len(got) == 1


def test_nobody_changes_a_device_without_the_form_of_this_console(changing, served, answering):
    got = answering("attic")
    wait_for(lambda: rows(changing), PATIENCE_S)
    path, form = "/device?name=attic", {"token": "t", "act": "restart"}
    for site in ("cross-site", "same-site", "none"):
        link = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": "document", "Sec-Fetch-User": "?1"}
        assert changing.post(path, form, **link)[0] == 403
    for token in ("", "T", "tt", "\xff"):
        assert changing.post(path, form | {"token": token})[0] == 403
    assert changing.post(path, form, Host="evil.example")[0] == 403
    for length in ("-1", "65536", "1e3", "9" * 5000):
        assert changing.post(path, form, **{"Content-Length": length})[0] == 413
    address = changing.url.removeprefix("http://").split(":")
    with socket.create_connection(address, PATIENCE_S) as peer:  # whose connection breaks in the middle
        peer.sendall(
            f"POST {path} HTTP/1.0\r\nHost: {address[0]}\r\nContent-Length: 99\r\n\r\ntoken=t&act=restart".encode()
        )
        peer.shutdown(socket.SHUT_WR)
        assert b" 400 " in peer.recv(4096)
    assert changing.get(path + "&token=t&act=restart")[0] == 200  # which is no form
    assert served.post(path, form)[0] == 501 and "<form" not in served.device("attic")[2]
    assert not got


def test_settings_that_have_changed_meanwhile_are_told_first(changing, answering):
    reply = {"ok": True, "config": CONFIG}
    got = answering("attic", ("reply", reply), BIRTH, ("health", {}))
    wait_for(lambda: rows(changing), PATIENCE_S)
    form = filled(posted(changing, "attic", act="settings")) | {"group": "north"}
    reply["config"] = CONFIG | {"interval_ms": 7000}  # by somebody else
    page = posted(changing, "attic", act="save", **form)
    lines = page.one(id="outcome").text.strip().splitlines()
    assert lines[0].startswith("Not saved yet: ") and "interval_ms: 7000 -> 60000" in lines
    assert not [payload for _, payload in got if payload]
    form = filled(page) | {"interval_ms": "7000"}
    assert "It has taken the change" in said(changing, "attic", act="save", **form)
    assert [json.loads(payload) for _, payload in got if payload] == [{"group": "north"}]


def test_a_form_that_was_shown_while_a_device_slept_clears_nothing(changing, answering, told):
    def tell(state):
        told("attic", "status", state=state, firmware="1", seq=1, epoch=1)
        wait_for(lambda: state in rows(changing)["attic"], PATIENCE_S)

    got = answering("attic", ("reply", {"ok": True, "config": CONFIG}), BIRTH, ("health", {}))
    wait_for(lambda: rows(changing), PATIENCE_S)
    known = filled(posted(changing, "attic", act="settings")) | {"group": "north"}
    tell("asleep")
    assert said(changing, "attic", act="save", **known).startswith("Failed: it does not answer now")
    form = filled(posted(changing, "attic", act="settings")) | {"interval_ms": "7000"}
    assert "these would replace them" in said(changing, "attic", act="add", add="sensors dht22", **form)
    tell("online")
    assert "interval_ms: 60000 -> 7000" in said(changing, "attic", act="save", **form)
    assert [json.loads(payload) for _, payload in got if payload] == [{"interval_ms": 7000}]


def test_what_goes_wrong_has_an_answer(capfd):
    with contextlib.closing(Asked({"/": lambda _: (TEXT, {}["\x1b"])}, Access("127.0.0.1"))) as console:
        assert console.get()[0] == 500 and "GET /: KeyError: '\\x1b'" in capfd.readouterr().err


def test_one_update_of_a_device_runs_and_ends_with_the_console(broker, told, release_of, tmp_path):
    (tmp_path / "unix-1.release").write_bytes(release_of(1).pack())
    told("attic", "status", state="online", board="unix")  # it never answers
    with serving(broker, "t", tmp_path) as console, ThreadPoolExecutor() as people:
        wait_for(lambda: rows(console), PATIENCE_S)
        update = partial(said, console, "attic", act="update", release="unix-1.release")
        found = [one.result() for one in [people.submit(update) for _ in range(8)]]
        assert sum(text.startswith("It begins") for text in found) == 1, found
        wait_for(lambda: announced(broker), PATIENCE_S)
        assert said(console, "attic", act="stop") == "No update of it is under way." and not announced(broker)
        assert told_of(console, "attic")["update"] == "stopped"
        assert update().startswith("It begins")
        wait_for(lambda: announced(broker), PATIENCE_S)
    assert not announced(broker)


def announced(broker):
    """The devices to which a release is announced."""
    found = []
    at = Broker("127.0.0.1", broker.port, "inflight", None, None, None, None)
    with Watch(at, lambda device, *_: found.append(device)) as watch:
        watch.follow("+", ["update/manifest"])
        watch.catch_up(PATIENCE_S)
    return found


def test_what_is_not_there_is_not_found(served):
    assert served.device("nobody")[0] == served.get("/metrics")[0] == 404


def test_it_needs_a_broker_or_tables(nobody, tmp_path):
    done = inflight("serve")
    assert done.exit_code == 2 and "name a broker with --broker or --config, or tables with --data" in done.stderr
    done = inflight("serve", "--broker", f"127.0.0.1:{nobody}", "--releases", tmp_path)
    assert done.exit_code == 2 and "--releases needs --changes" in done.stderr
    for more in ([], ["--data", tmp_path]):
        done = inflight("serve", "--broker", f"127.0.0.1:{nobody}", *more)
        assert done.exit_code == 1 and "this computer does not reach the broker" in done.stderr
