"""The console of a broker alone in headless Chromium: twenty devices, which a person sees, and changes with keys."""

import pytest

from host_tests.tools.devices.test_serve import CONFIG, EVIL, PATIENCE_S, rows, serving
from host_tests.waiting import wait_for
from tools.peers import chromium

WORKER = "browser"
pytestmark = pytest.mark.skipif(bool(chromium.no_axe()), reason=chromium.no_axe() or "there is one")
RENEWED = "new MutationObserver(done).observe(document.body, {attributes: true, attributeFilter: ['data-fresh']})"


@pytest.fixture
def fleet(broker, told, answering, tmp_path):
    """A console that may change devices; of `attic` it gets the settings."""
    for n in range(19):
        told(f"cellar-{n:02}", "status", state="online", firmware="1")
        told(f"cellar-{n:02}", "health", up=5, errors={EVIL: EVIL})
    own = {"driver": 64 * "W", 64 * "W": 1, "a": " 5\r\n", "b": "", "remove": True}
    answering("attic", ("reply", {"ok": True, "config": CONFIG | {"sensors": [own]}}))
    for n in (1, 2):
        (tmp_path / f"unix-{n}.release").touch()
    with serving(broker, "t", tmp_path) as console:
        wait_for(lambda: len(rows(console)) == 20, PATIENCE_S)
        yield console


def test_it_follows_what_devices_tell(browser, fleet, told):
    page = browser.open(fleet.url + "/")
    new = "[...document.querySelectorAll('td')].some(cell => cell.textContent.includes('21.5'))"
    watched = f"new MutationObserver(() => {new} && done()).observe(document, {{subtree: true, childList: true}})"
    page.ask(f"window.told = new Promise(done => {watched}), 0")
    told("cellar-03", "telemetry", '[{"bn":"urn:dev:mac:a:","bt":0,"seq":3,"epoch":4,"n":"temperature","v":21.5}]')
    page.ask("told.then(() => 0)")
    assert page.errors() == []


def test_a_page_that_is_renewed_leaves_a_person_where_he_is(browser, fleet, told):
    def renew(page):
        page.ask(f"window.renewed = new Promise(done => {RENEWED}), 0")
        told("attic", "health", up=5)
        page.ask("window.renewed.then(() => 0)")

    page = browser.open(fleet.url + "/", width=390)
    page.ask("document.querySelector('[href$=cellar-05]').focus()")
    page.ask("document.querySelector('.scroll').scrollLeft = 50")
    renew(page)
    assert page.ask("document.activeElement.textContent") == "cellar-05"
    assert page.ask("document.querySelector('.scroll').scrollLeft") == 50

    page = browser.open(fleet.url + "/device?name=attic")
    page.ask("document.querySelector('[name=release]').value = 'unix-2.release'")
    page.ask("document.querySelector('[value=restart]').focus()")
    renew(page)
    assert page.ask("document.activeElement.value") == "restart"
    assert page.ask("document.querySelector('[name=release]').value") == "unix-2.release"
    assert page.errors() == []


@pytest.mark.parametrize("dark", (False, True), ids=("light", "dark"))
def test_settings_are_reached_and_checked_by_keys_and_fit(browser, fleet, tmp_path, dark):
    def fits(name):
        for width in (1280, 390):
            page.resize(width)
            assert page.ask("document.documentElement.scrollWidth") == width
            page.picture(tmp_path / f"{name}-{width}.png")
        assert page.violations() == []

    def press(button):
        page.ask(f"document.querySelector('[value={button}]').focus()")
        loads = page.loads()
        page.press("Enter")
        wait_for(lambda: page.loads() > loads, PATIENCE_S)

    page = browser.open(fleet.url + "/", dark=dark)
    fits("fleet")
    page = browser.open(fleet.url + "/device?name=attic", dark=dark)
    fits("device")
    press("settings")
    fits("settings")
    press("save")
    assert page.ask("document.querySelector('#outcome').textContent").strip() == "Nothing changes."
    press("add")
    wait_for(lambda: page.ask("document.activeElement.firstChild?.textContent") == "sensors: adc", PATIENCE_S)
    fits("added")
    page.ask("document.querySelector('[name=interval_ms]').select()")
    page.type("5")
    press("check")
    wrong = page.ask("document.querySelector('[name=interval_ms] + .wrong').textContent")
    assert wrong.startswith("interval_ms: write")
    assert page.ask("document.activeElement.id") == "outcome"
    fits("wrong")
    assert page.errors() == []
