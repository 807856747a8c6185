"""The console: what it shows is what the report shows, as the tables are now; who may read it; its metrics."""

import base64
import json
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from host_tests.tools.fleet.report.reading import fleet_figures, read, value
from host_tests.tools.fleet.where.conftest import AT, Tables
from inflight_tools.fleet import commands


@pytest.fixture
def fleet(tables):
    """Number 1 of attic is lost; cellar is in safe mode and has sent its log."""
    tables.status("attic", 0, 0, oldest=0, state="online", board="esp32", group="north", micropython="1.28.0")
    tables.status("attic", 2, 30, oldest=2, state="online", board="esp32", group="north", micropython="1.28.0")
    tables.status("cellar", 0, 0, state="online", board="rp2", safe=True)
    told = {"journal_live": 9, "journal_used": 40_000, "journal_limit": 49_152}
    tables.health("cellar", 1, 20, {"accepted": 2}, **told)
    tables.add("cellar", 2, 25, kind="log", payload=json.dumps({"lines": ["first", "<b>second</b>"]}).encode())
    tables.add("cellar", 3, 27, kind="log", payload=b"no JSON")
    for device, seq, state in (("attic", 3, "trial"), ("cellar", 4, "good")):
        tables.add(device, seq, 40, kind="release", payload=json.dumps({"release": 7, "state": state}).encode())
    tables.marker(60, 61)
    tables.write()
    return tables


def test_the_figures_are_those_of_the_report(fleet, serve):
    from inflight_tools.fleet.query.facts import gather

    status, headers, text = serve().get()
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
    page = read(text)
    expected = fleet_figures(gather(fleet.root, "inflight", now=AT + 70.0))
    assert {identity: value(page, identity) for identity in expected} == expected
    assert page.one("h1").text.startswith("1 message was lost")


def test_the_fleet_page_tells_of_states_builds_and_journals(fleet, serve):
    page = read(serve().get()[2])
    rows = {row.one("bdi").text: row.text for row in page.one(id="devices-table").all("tbody")}
    assert "esp32 · MicroPython 1.28.0" in rows["attic"] and "online, safe mode" in rows["cellar"]
    assert "journal 81 % in use" in rows["cellar"] and "It holds" in page.one(id="devices-table").one("thead").text


def test_a_rollout_that_goes_on_is_shown(fleet, serve):
    page = read(serve().get()[2])
    assert value(page, "release-7-trial") == value(page, "release-7-good") == 1


def test_a_rollout_that_has_ended_is_not_shown(tables, serve):
    tables.add("attic", 0, kind="release", payload=b'{"release": 7, "state": "trial"}')
    tables.add("attic", 1, 5, kind="release", payload=b'{"release": 7, "state": "good"}')
    tables.add("attic", 2, 6, kind="release", payload=b"\xff", problem="not UTF-8")
    tables.write()
    assert not list(read(serve().get()[2]).all("p", class_="rollout"))


def test_a_device_has_a_page(fleet, serve):
    served = serve()
    links = [one.attributes["href"] for one in read(served.get()[2]).one(id="devices-table").all("a")]
    assert sorted(links) == ["device?name=attic", "device?name=cellar"]
    page = read(served.get("/" + links[0])[2])
    assert page.one("h1").text == "attic"
    figures = {name: value(page, f"device-{name}") for name in ("accepted", "delivered", "lost")}
    assert figures == {"accepted": 4, "delivered": 3, "lost": 1}


def test_the_log_of_a_device_the_newest_line_first(fleet, serve):
    page = read(serve().device("cellar")[2])
    assert [one.text for one in page.one(id="lines").all("code")] == ["<b>second</b>", "first"]


@pytest.mark.parametrize(
    ("number", "sentence"), [(0, "Delivered."), (1, "Lost behind the broker"), (9, "Not known to be accepted")]
)
def test_where_is_message_n(fleet, serve, number, sentence):
    page = read(serve().device("attic", message=number)[2])
    assert page.one(id="place").text.startswith(sentence)
    assert page.one(id="message").attributes["value"] == str(number)


def test_an_unknown_epoch_is_told(fleet, serve):
    text = read(serve().device("attic", message=1, epoch=99)[2]).one(id="place").text
    assert "no message of a journal with epoch 99" in text


@pytest.mark.parametrize("number", ["-1", "x", "4294967296", "1.5"])
def test_what_is_no_number_is_refused(fleet, serve, number):
    status, _, text = serve().device("attic", message=number)
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


def test_what_is_not_there_is_not_found(fleet, serve):
    served = serve()
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
    from deltalake import CommitProperties, Transaction

    return CommitProperties(app_transactions=[Transaction("inflight", number)])


def test_ages_grow_without_a_batch(fleet, serve):
    served = serve()
    assert "Newest message 9\u00a0s old" in served.get()[2]
    served.now += 10 * 86_400
    assert "Newest message 10\u00a0days old" in served.get()[2]


def test_the_page_of_a_report_is_not_live(fleet):
    from inflight_tools.fleet.query.facts import gather
    from inflight_tools.fleet.report import render

    text = render(gather(fleet.root, "inflight", now=AT + 70.0))
    assert "fetch(" not in text and "device?name=" not in text


def test_metrics_by_group_never_by_device(fleet, serve):
    status, headers, text = serve().get("/metrics")
    found = {
        (one.name, one.labels.get("group")): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
    assert status == 200 and headers["Content-Type"].startswith("text/plain")
    assert found["inflight_fleet_lost_messages", "north"] == 1 and found["inflight_fleet_lost_messages", "rp2"] == 0
    assert (
        found["inflight_fleet_nearly_full_journals", "rp2"] == 1
        and found["inflight_fleet_collectors_behind", None] == 0
    )
    causes = {
        one.labels["cause"]
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name == "inflight_fleet_given_up_messages"
    }
    assert {"dropped", "thinned", "erased"} <= causes
    assert "attic" not in text and "cellar" not in text


def test_it_only_reads(fleet, serve):
    served = serve()
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


def test_the_header_counts_from_the_proxy_alone(fleet, serve):
    assert serve(header="X-Forwarded-User", proxy="10.0.0.0/8").get(**{"X-Forwarded-User": "ann"})[0] == 403


def test_a_page_of_another_site_may_not_read_it(fleet, serve):
    assert serve().get(Host="evil.example")[0] == 403


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "console.example:0", ":0x"])
def test_it_listens_for_others_only_with_a_password_or_a_proxy(fleet, tmp_path, listen):
    done = CliRunner().invoke(commands.app, ["serve", "--data", str(tmp_path), "--listen", listen])
    assert done.exit_code == 1
    assert ("--viewer-password-file" in done.stderr) or listen == ":0x"


def test_an_empty_password_is_none(fleet, tmp_path):
    (tmp_path / "password").write_text("\n")
    words = [
        "serve",
        "--data",
        str(tmp_path),
        "--listen",
        "0.0.0.0:0",
        "--viewer-password-file",
        str(tmp_path / "password"),
    ]
    done = CliRunner().invoke(commands.app, words)
    assert done.exit_code == 1 and "has no password" in done.stderr
