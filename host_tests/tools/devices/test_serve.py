"""`inflight serve` with a broker alone: pages that devices make with their own messages."""

import contextlib

import pytest

from host_tests.tools.command import inflight
from host_tests.tools.devices.test_devices import BIRTH
from host_tests.tools.fleet.console.asked import Asked
from host_tests.tools.fleet.report.reading import read
from host_tests.waiting import wait_for
from inflight_tools.broker import Broker
from inflight_tools.devices.roster import KINDS, Connection
from inflight_tools.fleet.console.access import Access
from inflight_tools.fleet.console.devices import DevicePages

EVIL = "</script><script>alert(1)</script>\x1b"
PATIENCE_S = 60


@contextlib.contextmanager
def serving(broker, token=None):
    """A console of the devices at a mosquitto."""
    at = Broker("127.0.0.1", broker.port, "inflight", None, None, None, None)
    with contextlib.ExitStack() as stack:
        found = DevicePages(stack.enter_context(Connection(at, *KINDS[2:])), token)
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
    told(
        "attic",
        "telemetry",
        '[{"bn":"urn:dev:mac:a:","bt":0,"seq":3,"epoch":4,"n":"temperature","u":"Cel","v":21.5}]',
    )
    wait_for(lambda: "temperature=21.5 Cel" in rows(served)["attic"], PATIENCE_S)
    status, _, text = served.device("attic")
    page = read(text)
    assert status == 200 and page.one("h1").text == "attic" and "dht22: </script>" in page.one(id="told-table").text
    assert len(list(page.all("script"))) == 1 and "\x1b" not in text
    assert page.one("body").attributes["data-fresh"] == served.get("/fresh")[2]


def test_a_broker_that_is_gone_is_told(served, told, broker):
    told("attic", "status", state="online", firmware="1")
    wait_for(lambda: rows(served), PATIENCE_S)
    broker.kill()
    wait_for(lambda: "connected" not in read(served.get()[2]).one(id="trouble").text, PATIENCE_S)
    assert set(rows(served)) == {"attic"}


def posted(console, device, **fields):
    """What the page of a device says after a form was sent."""
    status, _, text = console.post(f"/device?name={device}", {"token": "t", **fields})
    assert status == 200, text
    return read(text).one(id="outcome").text.strip()


def test_a_form_changes_a_device(changing, answering):
    got = answering("attic", ("reply", {"ok": True, "lines": ["1 info a", EVIL]}), BIRTH, ("health", {}))
    wait_for(lambda: rows(changing), PATIENCE_S)
    form = read(changing.device("attic")[2]).one("form")
    assert {one.attributes["name"] for one in form.all("input")} == {"token", "field", "value", "secret"}
    assert form.one(name="token").attributes["value"] == "t"
    assert posted(changing, "attic", act="set", field="interval_ms", value="5000").startswith("It has taken the change")
    assert posted(changing, "attic", act="restart") == "It has restarted."
    assert posted(changing, "attic", act="log").splitlines() == ["1 info a", EVIL.replace("\x1b", "\\x1b")]
    assert posted(changing, "attic", act="set", field="wifi_key", secret="the-key-1").startswith("It has taken")
    assert got[0] == ("set", b'{"interval_ms": 5000}') and got[-1] == ("set", b'{"wifi_key": "the-key-1"}')
    assert "the-key-1" not in changing.device("attic")[2]


def test_a_form_with_something_wrong(changing, answering):
    got = answering("attic", ("reply", {"ok": False, "error": EVIL}))
    wait_for(lambda: rows(changing), PATIENCE_S)
    why = 'Failed: unknown field "intervall_ms": did you mean "interval_ms"?'
    assert posted(changing, "attic", act="set", field="intervall_ms", value="5") == why
    assert posted(changing, "attic", act="set").startswith('Failed: unknown field ""') and not got
    assert posted(changing, "attic", act="restart").startswith("Failed: attic refuses: </script>")
    assert changing.post("/device?name=nobody", {"token": "t", "act": "restart"})[0] == 404
    assert changing.post("/", {"token": "t"})[0] == 404


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
    for length in ("-1", "99999", "1e3", "9" * 5000):
        assert changing.post(path, form, **{"Content-Length": length})[0] == 413
    assert changing.get(path + "&token=t&act=restart")[0] == 200  # which is no form
    assert served.post(path, form)[0] == 501 and "<form" not in served.device("attic")[2]
    assert not got


def test_what_is_not_there_is_not_found(served):
    assert served.device("nobody")[0] == served.get("/metrics")[0] == 404


def test_it_needs_a_broker_or_tables(nobody, tmp_path):
    for words in ([], ["--broker", "x", "--data", tmp_path]):
        done = inflight("serve", *words)
        assert done.exit_code == 2 and "name a broker with --broker or --config, or tables with --data" in done.stderr
    done = inflight("serve", "--broker", f"127.0.0.1:{nobody}")
    assert done.exit_code == 1 and "this computer does not reach the broker" in done.stderr
