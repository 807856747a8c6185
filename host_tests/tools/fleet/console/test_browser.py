"""The console in headless Chromium: it shows a batch without a reload, and nothing is cut."""

import pytest

from host_tests.tools.fleet.tables import Tables
from tools.peers import chromium

PART = "document.querySelector('#part')"
WORKER = "browser"
pytestmark = pytest.mark.skipif(bool(chromium.unavailable()), reason=chromium.unavailable() or "there is one")


@pytest.fixture
def served(tables, serve):
    for device in ("attic", "cellar"):
        for seq in range(3):
            tables.add(device, seq, 10 * seq, kind="telemetry")
    tables.marker(60, 61)
    tables.write()
    return serve()


def test_an_open_page_shows_what_is_new_and_keeps_what_was_chosen(browser, served, tables):
    page = browser.open(served.url + "/")
    page.ask(f"{PART}.value = 'cellar'")
    page.ask("document.querySelector('details').open = true")
    watched = "new MutationObserver(done).observe(document.body, {attributes: true})"
    page.ask(f"window.renewed = new Promise(done => {watched}), 0")
    more = Tables(tables.root)
    more.add("cellar", 3, 65)
    more.write(mode="append")
    served.now += 60  # so that a text of this minute is another one
    served.live.look()
    page.ask("window.renewed.then(() => 0)")
    assert page.ask("document.querySelector('#fleet-delivered').value") == "7"
    assert page.ask(f"{PART}.value") == "cellar" and page.ask("document.querySelector('details').open")
    assert page.errors() == []


@pytest.mark.parametrize("dark", (False, True), ids=("light", "dark"))
def test_nothing_is_wider_than_the_screen(browser, served, tmp_path, dark):
    for path in ("/", "/devices", "/device?name=attic&message=1"):
        page = browser.open(served.url + path, dark=dark)
        for width in (1280, 390):
            page.resize(width)
            assert page.ask("document.documentElement.scrollWidth") == width
            page.picture(tmp_path / f"{width}.png")
        assert page.errors() == []
