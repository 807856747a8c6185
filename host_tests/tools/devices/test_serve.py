"""`inflight serve` with a broker alone: pages that devices make with their own messages."""

import contextlib

import pytest

from host_tests.tools.command import inflight
from host_tests.tools.fleet.console.asked import Asked
from host_tests.tools.fleet.report.reading import read
from host_tests.waiting import wait_for
from inflight_tools.devices.roster import KINDS, Connection
from inflight_tools.fleet.console.access import Access
from inflight_tools.fleet.console.devices import of_devices
from inflight_tools.options import BrokerOptions

EVIL = "</script><script>alert(1)</script>\x1b"
PATIENCE_S = 60


@pytest.fixture
def served(broker):
    at = BrokerOptions(broker=f"127.0.0.1:{broker.port}")
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(Connection(at, *KINDS[2:]))
        yield stack.enter_context(contextlib.closing(Asked(of_devices(connection), Access("127.0.0.1"))))


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


def test_what_is_not_there_is_not_found(served):
    assert served.device("nobody")[0] == served.get("/metrics")[0] == 404


def test_it_needs_a_broker_or_tables(nobody, tmp_path):
    for words in ([], ["--broker", "x", "--data", tmp_path]):
        done = inflight("serve", *words)
        assert done.exit_code == 2 and "name a broker with --broker or --config, or tables with --data" in done.stderr
    done = inflight("serve", "--broker", f"127.0.0.1:{nobody}")
    assert done.exit_code == 1 and "this computer does not reach the broker" in done.stderr
