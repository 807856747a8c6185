"""The console: what it shows is what the report shows, as the tables are now; who may read it; its metrics."""

import base64
import urllib.request

import pytest
from deltalake import CommitProperties, Transaction
from prometheus_client.parser import text_string_to_metric_families

from host_tests.tools.command import inflight
from host_tests.tools.fleet.console.served import Served
from host_tests.tools.fleet.report.reading import fleet_figures, read, value
from host_tests.tools.fleet.tables import AT, Tables, troubled
from inflight_tools.fleet.console.access import Access
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
    assert sorted(links) == ["device?name=attic", "device?name=cellar"]
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
    (link,) = read(served.get()[2]).one(id="devices-table").all("a")
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
    more.write(mode="append", commit_properties=_batch(5))
    served.now += 2
    assert served.get("/fresh")[2] != before
    page = read(served.get()[2])
    assert value(page, "fleet-delivered") == 9 and page.one("body").attributes["data-fresh"] == served.get("/fresh")[2]


def _batch(number):
    return CommitProperties(app_transactions=[Transaction("inflight", number)])


def test_ages_grow_without_a_batch(fleet, serve):
    served = serve()
    assert "Newest message 9\u00a0s old" in served.get()[2]
    served.now += 10 * 86_400
    assert "Newest message 10\u00a0days old" in served.get()[2]


def test_metrics_by_group_never_by_device(served):
    status, headers, text = served.get("/metrics")
    found = {
        (one.name, one.labels.get("group")): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
    assert status == 200 and headers["Content-Type"].startswith("text/plain")
    assert found["inflight_fleet_lost_messages", "north"] == 1 and found["inflight_fleet_lost_messages", "rp2"] == 0
    assert found["inflight_fleet_nearly_full_journals", "rp2"] == 1
    assert found["inflight_fleet_collectors_behind", None] == 0
    causes = {
        one.labels["cause"]
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name == "inflight_fleet_given_up_messages"
    }
    assert {"dropped", "thinned", "erased"} <= causes
    assert "attic" not in text and "cellar" not in text


def test_it_only_reads(served):
    for method in ("POST", "PUT", "DELETE"):
        request = urllib.request.Request(served.url + "/", method=method, data=b"")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=240)
        assert refused.value.code == 501


def test_tables_that_cannot_be_read_are_told(serve, tmp_path):
    (tmp_path / "tables/ledger/batch=1").mkdir(parents=True)
    status, _, text = serve().get()
    assert status == 503 and "before Delta Lake" in text


def test_without_tables_it_says_what_to_do(serve):
    assert "make demo" in serve().get()[2]


def basic(password):
    return {"Authorization": "Basic " + base64.b64encode(f"me:{password}".encode()).decode()}


def test_a_password_is_asked_for(fleet, serve):
    served = serve(password="s3crét")
    for headers in (
        {},
        basic("wrong"),
        {"Authorization": "Basic ###"},
        {"Authorization": "Bearer s3crét".encode().decode("latin-1")},
    ):
        status, told, text = served.get(**headers)
        assert status == 401 and told["WWW-Authenticate"].startswith("Basic") and "attic" not in text
    for path in ("/", "/device?name=attic", "/fresh", "/metrics"):
        assert served.get(path)[0] == 401 and served.get(path, **basic("s3crét"))[0] == 200


def test_the_header_of_a_proxy_lets_in(fleet, serve):
    served = serve(header="X-Forwarded-User")
    assert served.get()[0] == served.get(**{"X-Forwarded-User": " "})[0] == 403
    assert served.get(**{"X-Forwarded-User": "ann"})[0] == 200
    other = serve(header="X-Forwarded-User", proxy="10.0.0.0/8")  # it counts from the proxy alone
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
        assert done.exit_code == 1
        return done.stderr

    assert "--viewer-password-file" in told() or listen == ":0x"
    (tmp_path / "password").write_text("\n")
    assert "has no password" in told("--viewer-password-file", str(tmp_path / "password")) or listen == ":0x"
