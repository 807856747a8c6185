"""The page in headless Chromium, offline: its layout and script work, without requests and without errors."""

import struct

import pytest

from host_tests.thorough import THOROUGH, more
from host_tests.tools.fleet.report.made_facts import MADE
from inflight_tools.fleet.report import render
from tools.peers import chromium

WORKER = "browser"
pytestmark = [pytest.mark.skipif(bool(chromium.unavailable()), reason=chromium.unavailable() or "there is one")]
WIDTHS = (1280, 800, 390, 360) if THOROUGH else (1280, 360)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    made = {name: folder / f"{name}.html" for name in MADE}
    for name, path in made.items():
        path.write_text(render(MADE[name]), encoding="utf-8")
    return made


@pytest.fixture
def complete(browser, files):
    page = browser.open(files["complete"].as_uri())
    yield page
    assert page.errors() == []


NAMES = "[...document.querySelectorAll('#devices-table tbody:not([hidden]) bdi')].map(e => e.textContent)"


def column(page, n):
    rows = "[...document.querySelectorAll('#devices-table tbody > tr:first-child')]"
    return page.ask(f"{rows}.map(r => r.cells[{n}].textContent)")


@pytest.mark.parametrize("name", [*more("complete", "empty"), "hostile", "losing"])
@pytest.mark.parametrize("dark", (False, True), ids=("light", "dark"))
def test_layout(browser, files, tmp_path, name, dark):
    """At each width: nothing is wider than the screen. No requests, no errors."""
    page = browser.open(files[name].as_uri(), dark=dark)
    for width in WIDTHS:
        page.resize(width)
        assert page.ask("document.documentElement.scrollWidth") == width == page.ask("innerWidth")
        picture = page.picture(tmp_path / f"{name}-{width}.png")
        across, down = struct.unpack(">II", picture[16:24])
        assert picture.startswith(b"\x89PNG") and across == width and down >= 300
    red = int(page.ask("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")[0])
    assert red < 40 if dark else red > 215
    assert page.errors() == []
    assert page.requests() == [files[name].as_uri()]


def test_hostile_text_is_not_executed(browser, files):
    page = browser.open(files["hostile"].as_uri())
    assert page.ask("document.querySelectorAll('img, iframe, [onerror], [onload]').length") == 0
    assert page.ask("document.querySelector('#dead code').textContent").startswith("</script><script>alert(1)")


def test_devices_are_sorted_by_a_click(complete):
    worst = [one["device"] for one in MADE["complete"]["devices"]]
    assert complete.ask(NAMES) == worst
    click = "document.querySelectorAll('#devices-table thead button')[{}].click()"
    accepted = [one["accepted"] for one in MADE["complete"]["devices"]]
    for order in (sorted(accepted, reverse=True), sorted(accepted)):
        complete.ask(click.format(3))
        assert column(complete, 3) == [f"{n:,}" for n in order]
    assert complete.ask("document.querySelectorAll('#devices-table th')[3].ariaSort") == "ascending"
    complete.ask(click.format(9))  # what a journal holds; a device without one is last, in either order
    assert column(complete, 9)[-1] == "–"
    complete.ask(click.format(9))
    assert column(complete, 9)[-1] == "–"
    complete.ask(click.format(2))
    assert complete.ask(NAMES) == worst


def test_devices_are_filtered_by_typing(complete):
    complete.ask("document.querySelector('#find').focus()")
    complete.type("OFFLINE cellar")
    assert complete.ask(NAMES) == ["cellar-1"]
    assert complete.ask("document.querySelector('#found').textContent") == "1 of 50 devices"
    complete.type(" nobody")
    assert complete.ask(NAMES) == []


def test_a_device_opens_by_the_keyboard(complete):
    visible = "document.querySelector('#d0').getBoundingClientRect().height > 0"
    assert not complete.ask(visible)
    complete.ask("document.querySelector('#devices-table tbody button').focus()")
    complete.press("Enter")
    assert complete.ask(visible)
    assert complete.ask("document.activeElement.getAttribute('aria-expanded')") == "true"
    complete.press("Enter")
    assert not complete.ask(visible)


def test_values_are_read_off_by_the_arrow_keys(complete):
    complete.ask("document.querySelector('.wide').focus()")
    complete.press("ArrowRight")
    first = sum(point["received"] for point in MADE["complete"]["timeline"]["points"][:2])  # a step of two minutes
    assert f": received {first}" in complete.ask("document.querySelector('#timeline output').textContent")
    shown = "[...document.querySelectorAll('.of')].filter(e => e.offsetHeight)"
    assert complete.ask(f"{shown}.map(e => e.querySelector('h3').textContent)") == ["attic-0"]  # chosen at first
    complete.ask("document.querySelector('#of-0 .chart').focus()")
    complete.press("End")
    newest = MADE["complete"]["measurements"]["attic-0"][0]["points"][-1]
    data = complete.ask("document.querySelector('#of-0 output').textContent")
    assert "°C" in data and abs(float(data.split(": ")[1].split()[0]) - newest[1]) < 2


def test_times_in_the_viewers_zone(browser, files):
    page = browser.open(files["complete"].as_uri(), zone="Asia/Tokyo")
    assert page.ask("document.querySelector('header time').textContent") == "2023-11-15 07:13"
    assert page.ask("document.querySelector('header .zone').textContent") == "Asia/Tokyo"
    assert page.ask("document.querySelector('.wide .day').textContent") == "11-15"


def test_print(browser, files):
    """Printed in light colours, even in dark mode, and not wider than the paper."""
    page = browser.open(files["losing"].as_uri(), dark=True, width=720)
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.call("Emulation.setEmulatedMedia", media="print", features=features)
    assert page.ask("getComputedStyle(document.body).color") == "rgb(27, 31, 35)"
    assert page.ask("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert page.ask("document.documentElement.scrollWidth") <= 720
