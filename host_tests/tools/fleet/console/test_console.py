"""The console: what it shows is what the report shows, as the tables are now; who may read it; its metrics."""

import base64
import re
import threading
import urllib.parse
import urllib.request
from types import SimpleNamespace

import duckdb
import pytest
from deltalake import CommitProperties, Transaction
from prometheus_client.parser import text_string_to_metric_families

from host_tests.tools.command import inflight
from host_tests.tools.fleet.console.served import Served
from host_tests.tools.fleet.report.reading import fleet_figures, read, value
from host_tests.tools.fleet.tables import AT, Tables, troubled
from host_tests.waiting import wait_for
from inflight_tools.broker import Broker
from inflight_tools.devices.roster import Roster
from inflight_tools.fleet.console import live
from inflight_tools.fleet.console.access import Access
from inflight_tools.fleet.console.devices import DevicePages
from inflight_tools.fleet.console.pages import of_tables
from inflight_tools.fleet.device import COMMANDS
from inflight_tools.fleet.query.facts import gather
from inflight_tools.fleet.report import render


@pytest.fixture
def fleet(tables):
    return troubled(tables)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A console of such a fleet, which several tests ask."""
    folder = tmp_path_factory.mktemp("console")
    troubled(Tables(folder / "tables"))
    running = Served(folder, Access("127.0.0.1"))
    yield running
    running.close()


def test_the_page_of_the_fleet(served):
    """It has the figures of the report; states, builds, journals, a rollout that goes on, and links to devices."""
    status, headers, text = served.get()
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    page = read(text)
    facts = gather(served.folder / "tables", "inflight", now=AT + 70.0)
    assert {identity: value(page, identity) for identity in fleet_figures(facts)} == fleet_figures(facts)
    assert page.one("h1").text.startswith("1 message was lost")
    rows = {row.one("bdi").text: row.text for row in page.one(id="devices-table").all("tbody")}
    assert "esp32 · MicroPython 1.28.0" in rows["attic"] and "online, safe mode" in rows["cellar"]
    assert "journal 81 % in use" in rows["cellar"] and "It holds" in page.one(id="devices-table").one("thead").text
    assert value(page, "release-7-trial") == value(page, "release-7-good") == 1
    links = [one.attributes["href"] for one in page.one(id="devices-table").all("a")]
    assert sorted(links)[:2] == ["device?name=attic", "device?name=cellar"]
    report = render(facts)
    assert "fetch(" not in report and "device?name=" not in report  # a report is not live


def test_a_rollout_that_has_ended_is_not_shown(tables, serve):
    tables.add("attic", 0, kind="release", payload=b'{"release": 7, "state": "trial"}')
    tables.add("attic", 1, 5, kind="release", payload=b'{"release": 7, "state": "good"}')
    tables.add("attic", 2, 6, kind="release", payload=b"\xff", problem="not UTF-8")
    tables.write()
    assert not list(read(serve().get()[2]).all("p", class_="rollout"))


def test_a_device_has_a_page(served):
    """With its log, the newest line first."""
    page = read(served.device("attic")[2])
    assert page.one("h1").text == "attic"
    figures = {name: value(page, f"device-{name}") for name in ("accepted", "delivered", "lost")}
    assert figures == {"accepted": 4, "delivered": 3, "lost": 1}
    page = read(served.device("cellar")[2])
    assert [one.text for one in page.one(id="lines").all("code")] == ["<b>second</b>", "first"]


@pytest.mark.parametrize(
    ("number", "more", "sentence"),
    [
        (0, {}, "Delivered."),
        (1, {}, "Lost behind the broker"),
        (9, {}, "Not known to be accepted"),
        (1, {"epoch": 99}, "no message of a journal with epoch 99"),
    ],
)
def test_where_is_message_n(served, number, more, sentence):
    page = read(served.device("attic", message=number, **more)[2])
    assert page.one(id="place").text.startswith(sentence)
    assert page.one(id="message").attributes["value"] == str(number)


@pytest.mark.parametrize("number", ["-1", "x", "4294967296", "1.5", 5000 * "1"])
def test_what_is_no_number_is_refused(served, number):
    status, _, text = served.device("attic", message=number)
    assert status == 400 and "a whole number" in text


def test_hostile_names_stay_text(tables, serve):
    name = "</script><script>alert(1)</script>' OR '1'='1&name=attic"
    tables.add(name, 0)
    tables.write()
    served = serve()
    *_, link = read(served.get()[2]).one(id="devices-table").all("a")
    status, _, text = served.get("/" + link.attributes["href"])
    assert status == 200 and read(text).one("h1").text == name
    assert [one.attributes.get("type") for one in read(text).all("script")] == [None]


def test_what_is_not_there_is_not_found(served):
    assert served.get("/nothing")[0] == served.device("nobody")[0] == served.get("/device")[0] == 404


def test_a_page_shows_a_batch_that_ended_meanwhile(fleet, serve):
    served = serve()
    before = served.get("/fresh")[2]
    assert read(served.get()[2]).attributes is not None and served.get("/fresh")[2] == before
    more = Tables(fleet.root)
    more.add("attic", 4, 65)
    more.write(mode="append", commit_properties=CommitProperties(app_transactions=[Transaction("inflight", 5)]))
    served.live.look()
    assert served.get("/fresh")[2] != before
    page = read(served.get()[2])
    assert value(page, "fleet-delivered") == 9 and page.one("body").attributes["data-fresh"] == served.get("/fresh")[2]


def test_ages_grow_without_a_batch(fleet, serve):
    served = serve()
    assert "Newest message 9\u00a0s old" in served.get()[2]
    served.now += 10 * 86_400
    assert "These figures are 10\u00a0days old." in served.get()[2]
    served.live.look()
    assert "Newest message 10\u00a0days old" in served.get()[2]


def test_no_page_waits_for_a_query(fleet, serve, monkeypatch):
    """Once the facts are there, neither tables nor DuckDB are needed; what has to be read of a device is told later."""
    served = serve()
    served.device("attic", message=1)
    (fleet.root / "registry.json").write_text('{"devices": {"cellar": {"note": "behind the stove"}}}')
    served.now += 60
    monkeypatch.setattr(duckdb, "connect", lambda *_: pytest.fail("a page has asked DuckDB"))
    fleet.root.rename(fleet.root.with_name("away"))
    for path in ("/", "/devices", "/devices?find=tti&sort=-lost", "/device?name=attic&message=1", "/fresh", "/metrics"):
        assert served.get(path)[0] == 200
    page = read(served.get("/device?name=cellar")[2])
    assert page.one(id="device-delivered").attributes["value"] == "5" and "are being read" in page.one(id="waits").text
    assert not list(page.all(id="log"))
    waiting = served.get("/fresh?name=cellar")[2]
    monkeypatch.undo()
    fleet.root.with_name("away").rename(fleet.root)
    served.live.answer()
    assert served.get("/fresh?name=cellar")[2] != waiting
    page = read(served.get("/device?name=cellar")[2])
    assert not list(page.all(id="waits")) and page.one(id="lines").all("code")
    served.live.look()  # what an operator said is shown without a batch
    assert "behind the stove" in served.get("/device?name=cellar")[2]


def test_a_viewer_does_not_take_the_answers_of_others(served, monkeypatch):
    """Who asks about unknown devices, or about more messages than are kept, hinders nobody and nothing."""
    asked = []

    def fails(*where, number, **how):
        asked.append(number)
        raise OSError("broken")

    monkeypatch.setattr(live, "of_device", fails)
    for n in range(200):
        assert served.get(f"/fresh?name=nobody{n}")[0] == 200
    served.live.answer()
    assert asked == []
    pages = [f"/fresh?name=attic&message={n}" for n in range(70)]
    for _ in range(3):
        for page in pages:
            served.get(page)
        for _ in pages:
            served.live.answer()
    assert len(asked) == len(set(asked)) > 60  # once each, though not all answers are kept
    told = [served.get(page)[2] for page in pages]
    assert "" not in told and served.get("/metrics")[0] == 200  # one device's trouble is not the fleet's
    assert [served.get(page)[2] for page in pages] == told


def test_a_search_has_an_end(served):
    assert served.get(f"/devices?find={'+'.join(['attic'] * 3000)}")[2].count("attic") < 100


def test_devices_are_found_sorted_and_paged(tables, serve):
    for n in range(120):
        tables.add(f"Site-{n % 2}-{n:03}", 1 + n % 7, n)
    tables.write()
    served = serve()

    def shown(**query):
        page = read(served.get("/devices?" + urllib.parse.urlencode(query))[2])
        return page, [one.text for one in page.one(id="devices-table").all("bdi")]

    page, names = shown(sort="device")
    assert names == [f"Site-0-{n:03}" for n in range(0, 100, 2)] and page.one(id="found").text == "120 devices"
    pages = [one.attributes["href"] for one in page.one("form").all("a")]
    assert pages == ["devices?sort=device&number=1"] and "page 1 of 3" in page.one("form").text
    assert shown(sort="device", number=2)[1] == [f"Site-1-{n:03}" for n in range(81, 120, 2)]
    assert shown(sort="device", number=99)[1] == shown(sort="device", number=2)[1]
    assert shown(sort="-device")[1][0] == "Site-1-119"
    assert shown(sort="-seen_at", find="1-0")[1][0] == "Site-1-099"
    assert shown(find="TE-1 07 -07", sort="device")[1] == [f"Site-1-{n:03}" for n in (71, 73, 75, 77, 79)]
    page, names = shown(find="1-01", sort="accepted")
    heads = {one.text: one for one in page.all("th", scope="col")}
    assert heads["Accepted"].attributes["aria-sort"] == "ascending" and len(names) == 5
    assert heads["Accepted"].one("a").attributes["href"] == "devices?find=1-01&sort=-accepted"
    assert heads["Device"].one("a").attributes["href"] == "devices?find=1-01&sort=device"
    assert shown(find="%")[1] == [] and len(shown(group="unknown")[1]) == 50 and shown(group="north")[1] == []
    assert served.get("/devices?number=x")[0] == 400


def test_a_form_says_what_tables_do_not(fleet, serve, served):
    """As the commands do, whose errors it shows; only with the token of its page."""
    given = serve(token="t")
    registry = fleet.root / "registry.json"

    def post(act, device="attic", token="t", **fields):
        status, _, text = given.post(f"/device?name={device}", {"token": token, "act": act} | fields)
        return read(text).one(id="outcome").text.strip() if status == 200 else status

    form = read(given.get("/device?name=attic")[2]).one(id="say").one("form")
    assert form.one(name="token").attributes["value"] == "t"
    assert sorted(one.attributes["value"] for one in form.all("button")) == sorted(COMMANDS)
    assert post("note", token="x") == 403 and post("note", device="nobody") == post("sell") == 404
    assert post("expect", value="5") == "Failed: write an interval, for example 30s, 10m, 24h or 7d."
    assert "two devices" in post("rename", value="cellar") and "without /" in post("rename", value="a/b")
    assert not registry.exists()
    for act, text in (("note", "<b>stove"), ("expect", "24h"), ("retire", ""), ("rename", "loft")):
        assert post(act, value=text) == "It is noted, and counts in a moment."
    given.live.look()
    page = read(given.device("attic")[2])
    assert page.one("h1").text == "loft" and "was attic · <b>stove" in page.one("header").text
    assert post("rename", undo="on").startswith("It is noted")
    given.live.look()
    assert read(given.device("attic")[2]).one("h1").text == "attic"
    assert served.post("/device?name=attic", {"token": "t", "act": "retire"})[0] == 501


def test_a_page_has_what_tables_know_and_what_the_device_tells_now(fleet, serve, nobody):
    roster = Roster()
    for device in ("attic", "new"):
        roster.message(device, "status", b'{"state": "online", "firmware": "9.9"}', True)
    at = SimpleNamespace(roster=roster, broker=Broker("127.0.0.1", nobody, "inflight", None, None, None, None))
    served = serve(token="t", beside=DevicePages(at, "t"))

    def names(path):
        return [row.one("a").text for row in read(served.get(path)[2]).one("tbody").all("tr")]

    def parts(name):
        return [one.attributes["id"] for one in read(served.device(name)[2]).all("section")]

    [link] = [one.attributes["href"] for one in read(served.get()[2]).one("header").all("a")]
    assert names(f"/{link}") == ["attic", "new"] and "attic" in names("/devices")
    assert {"told", "change", "known", "say"} < {*parts("attic")} and parts("new") == ["told", "change"]
    assert "told" not in parts("cellar")
    paths = [f"/fresh{more}" for more in ("", "?name=attic", "?now=1")]
    before = [served.get(path)[2] for path in paths]
    roster.message("attic", "health", b'{"up": 5}', False)
    assert [served.get(path)[2] == text for path, text in zip(paths, before, strict=True)] == [True, False, False]
    page = read(served.post("/device?name=attic", {"token": "t", "act": "restart"})[2])
    assert "this computer does not reach the broker" in page.one(id="outcome").text and page.one(id="known")
    assert served.post("/device?name=cellar", {"token": "t", "act": "restart"})[0] == 404
    for name in ("attic", "cellar", "new"):  # else an open page would be read again and again
        shown = read(served.device(name)[2]).one("body").attributes["data-fresh"]
        assert shown == served.get(f"/fresh?name={name}")[2], name
    assert served.post("/device?name=attic", {"token": "t", "act": "rename", "value": "loft"})[0] == 200
    served.live.look()
    assert {"told", "change"} < {*parts("attic")} and "told" not in parts("loft")  # of the device that a form reaches


def test_what_devices_tell_is_shown_without_tables(serve, tmp_path, nobody):
    (tmp_path / "tables/ledger/batch=1").mkdir(parents=True)  # which cannot be read
    roster = Roster()
    roster.message("attic", "status", b'{"state": "online"}', True)
    at = SimpleNamespace(roster=roster, broker=Broker("127.0.0.1", nobody, "inflight", None, None, None, None))
    served = serve(token="t", beside=DevicePages(at, "t"))
    page = read(served.get()[2])
    assert page.one(id="roster-table").one("a").text == "attic"
    assert "The tables cannot be read: " in page.one(id="trouble").text
    assert page.one("body").attributes["data-fresh"] == served.get("/fresh")[2]
    assert read(served.get("/device?name=attic")[2]).one(id="change")
    page = read(served.post("/device?name=attic", {"token": "t", "act": "restart"})[2])
    assert "this computer does not reach the broker" in page.one(id="outcome").text
    assert served.get("/devices")[0] == served.get("/metrics")[0] == 503


def test_the_thread_that_reads_ends_before_the_program(tables):
    """One that is within a query when the interpreter ends aborts the process, or holds it for ever."""
    before = {*threading.enumerate()}  # of another test one may end meanwhile
    with live.Live("", str(tables.root), "inflight") as found:
        wait_for(lambda: found.fleet or found.trouble, 60)
    assert {*threading.enumerate()} <= before


def test_tables_that_cannot_be_read_any_more_are_told(fleet, serve):
    served = serve()
    (fleet.root / "registry.json").write_text("{")
    served.live.look()
    for path in ("/", "/devices", "/device?name=attic"):
        assert "cannot be read now: " in read(served.get(path)[2]).one(id="age").text
    assert served.get("/metrics")[0] == 503
    (fleet.root / "registry.json").unlink()
    served.live.look()
    assert "cannot be read" not in served.get()[2] and served.get("/metrics")[0] == 200


def test_metrics_by_group_never_by_device(served):
    status, headers, text = served.get("/metrics")
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    found = {(one.name, one.labels.get("group")): one.value for one in samples}
    assert status == 200 and headers["Content-Type"].startswith("text/plain")
    assert found["inflight_fleet_lost_messages", "north"] == 1 and found["inflight_fleet_lost_messages", "rp2"] == 0
    assert found["inflight_fleet_nearly_full_journals", "rp2"] == 1
    assert found["inflight_fleet_collectors_behind", None] == 0
    causes = {one.labels["cause"] for one in samples if one.name == "inflight_fleet_given_up_messages"}
    assert {"dropped", "thinned", "erased"} <= causes
    assert "attic" not in text and "cellar" not in text


def test_readings_that_an_operator_names_are_metrics(tables):
    """The last one by its own time, within a day."""
    for seq, s, received, celsius in ((0, -100_000, -90_000, 1.0), (1, 60, 60, 21.0), (2, 30, 65, 20.0)):
        tables.measure("attic", seq, s, received=received, name="temperature", unit="Cel", value=celsius)
    tables.measure("cellar", 0, -100_000, received=-90_000, name="temperature", unit="Cel", value=1.0)
    tables.measure("cellar", 1, 0, name="humidity", unit="%RH", value=50.0)
    tables.measure("cellar", 2, 0, name="leak", flag=True)
    tables.add("attic", 10)
    tables.write()
    names = ["temperature", "leak"]
    found = live.Live("", str(tables.root), "inflight", clock=lambda: AT + 70.0, readings=names)
    found.look()
    _, text = of_tables(found)["pages"]["/metrics"]({})
    assert re.findall("^inflight_reading.*", text, re.M) == [
        'inflight_reading{device="attic",name="temperature",unit="Cel"} 21.0',
        'inflight_reading{device="cellar",name="leak",unit=""} 1.0',
    ]


def test_it_only_reads(served):
    for method in ("POST", "PUT", "DELETE"):
        request = urllib.request.Request(served.url + "/", method=method, data=b"")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=240)
        assert refused.value.code == 501


def test_without_tables_that_can_be_read_it_says_what_to_do(serve, tmp_path):
    assert "make demo" in serve().get()[2]
    (tmp_path / "tables/ledger/batch=1").mkdir(parents=True)
    status, headers, text = serve().get()
    assert status == 503 and "before Delta Lake" in text and headers["Refresh"] == "2"


def basic(password):
    return {"Authorization": "Basic " + base64.b64encode(f"me:{password}".encode()).decode()}


def test_a_password_is_asked_for(served, serve):
    served = serve(live=served.live, password="s3crét")
    others = ("Basic ###", "Bearer s3crét".encode().decode("latin-1"))
    for headers in ({}, basic("wrong"), *({"Authorization": other} for other in others)):
        status, told, text = served.get(**headers)
        assert status == 401 and told["WWW-Authenticate"].startswith("Basic") and "attic" not in text
    for path in ("/", "/device?name=attic", "/fresh", "/metrics"):
        assert served.get(path)[0] == 401 and served.get(path, **basic("s3crét"))[0] == 200


def test_the_header_of_a_proxy_lets_in(served, serve):
    other = serve(live=served.live, header="X-Forwarded-User", proxy="10.0.0.0/8")  # it counts from the proxy alone
    served = serve(live=served.live, header="X-Forwarded-User")
    assert served.get()[0] == served.get(**{"X-Forwarded-User": " "})[0] == 403
    assert served.get(**{"X-Forwarded-User": "ann"})[0] == 200
    assert other.get(**{"X-Forwarded-User": "ann"})[0] == 403


def test_a_page_of_another_site_may_not_read_it(served):
    assert served.get(Host="evil.example")[0] == 403
    for site in ("cross-site", "same-site"):
        image = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
        assert served.get("/device?name=attic", **image)[0] == 403
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}
    assert served.get(**link)[0] == 403 and served.get(**link, **{"Sec-Fetch-User": "?1"})[0] == 200
    assert served.get(**{"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Dest": "empty"})[0] == 200


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "console.example:0", ":0x"])
def test_it_listens_for_others_only_with_a_password_or_a_proxy(served, tmp_path, listen):
    def told(*words):
        done = inflight("serve", "--data", served.folder, "--listen", listen, *words)
        assert done.exit_code == (2 if listen == ":0x" else 1)
        return done.stderr

    assert "--viewer-password-file" in told() or listen == ":0x"
    (tmp_path / "password").write_text("\n")
    assert "has no password" in told("--viewer-password-file", str(tmp_path / "password")) or listen == ":0x"
