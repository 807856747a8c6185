"""The page of the set-up in headless Chromium: a person fills the form, without scripts, and sees the outcome."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import trustme

from host_tests.firmware.setting_up import Page, patiently
from tools.peers import chromium
from tools.peers.certificates import server_context
from tools.peers.daemon import held_port
from tools.peers.tls_proxy import tls_proxy

RUNTIMES = "micropython-x86"
MORE_RUNTIMES = "cpython"
WORKER = "browser"

pytestmark = pytest.mark.skipif(bool(chromium.unavailable()), reason=chromium.unavailable() or "there is one")


@pytest.fixture
def device(machine):
    """A Machine that waits for its set-up; `url` is that of its page."""
    return waiting(machine)


def waiting(machine):
    page = held_port(machine)
    machine.environment = {"INFLIGHT_SETUP": f"{page}:0"}
    machine.stdin = subprocess.PIPE
    machine.search.append(str(Path(__file__).parent / "device_scripts/bus"))  # a sensor is found
    networks = [{"ssid": "attic", "rssi": -60, "key": "the-wifi-key"}, {"ssid": "a" * 32, "rssi": -70}]
    (machine.home / "networks.json").write_text(json.dumps(networks))
    machine.start("-m", "with_bus")
    machine.wait_for(lambda: [1] * Page(page).there())
    machine.url = f"http://127.0.0.1:{page}/"
    return machine


class Person:
    """Somebody at the page of a browser."""

    def __init__(self, page):
        self._page = page

    def _do(self, method, selector, **more):
        # The result, when there is such an element. Its number is valid until the page has loaded.
        def done():
            try:
                root = self._page.call("DOM.getDocument")["root"]["nodeId"]
                node = self._page.call("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
                return node and (self._page.call(method, nodeId=node, **more), True)
            except OSError:
                return False

        return patiently(done)[0]

    def fill(self, **fields):
        for name, text in fields.items():
            self._do("DOM.focus", f"[name={name}]")
            self._page.type(str(text))

    def choose_file(self, path):
        self._do("DOM.setFileInputFiles", "[name=ca]", files=[str(path)])

    def submit(self):
        self._page.press("Enter")  # in the last field

    def told(self, text):
        """Waits until the page tells this outcome."""

        def outcome():
            html = self._do("DOM.getOuterHTML", "html")["outerHTML"]
            return any(text in found for found in re.findall('id="outcome">([^<]*)', html))

        patiently(outcome)


def test_a_person_sets_the_device_up(device, broker, browser, tmp_path, published):
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with tls_proxy(broker.port, server_context(authority, "localhost")) as tls:
        page = browser.open(device.url, width=390, script=False)
        person = Person(page)
        page.picture(tmp_path / "page.png")
        person.fill(key="wrong-key", host="localhost", port=tls.port)
        person.submit()
        person.told("The key of the network attic is wrong")
        person.choose_file(tmp_path / "ca.pem")
        person.fill(key="the-wifi-key")
        person.submit()
        person.told("Saved.")
        assert {url.split("/")[2] for url in page.requests()} == {device.url.split("/")[2]}
        assert page.errors() == []
        assert device.end()[1] == 75
        device.start()
        device.wait_for(lambda: published("status"))


def test_the_key_can_be_shown(device, browser):
    page = browser.open(device.url, width=390)
    page.ask("document.querySelector('[onclick]').click()")
    assert page.ask("document.querySelector('[name=key]').type") == "text"
    assert page.errors() == []  # the page's policy allows this script


SMALL = """[...document.querySelectorAll("input, select, button, a, summary")]
.map(e => e.closest("label")?.querySelector("[type=checkbox]") ? e.parentElement : e)
.filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 44).map(e => e.outerHTML)"""


@pytest.fixture
def look(browser, tmp_path):
    """look(html): a page has no barriers, fits, and has a dark mode, on a phone and on a computer."""
    if reason := chromium.no_axe():
        pytest.skip(reason)

    def look(html):
        # A copy: the device ends when a person has seen the success. Without the refresh, to which axe objects: the
        # page that has it shows only progress, and nothing can be entered there.
        file = tmp_path / "page.html"
        file.write_text(html.replace('<meta http-equiv="refresh" content="2;url=/">', ""))
        for width, dark in ((390, False), (390, True), (1280, False), (1280, True)):
            page = browser.open(file.as_uri(), width=width, dark=dark)
            assert page.violations() == []
            assert page.ask("document.querySelectorAll('main').length") == 1
            assert page.ask("document.documentElement.scrollWidth") == width
            assert page.ask(SMALL) == []
            red = int(page.ask("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")[0])
            assert red < 40 if dark else red > 215

    return look


def test_each_page_has_no_barriers_and_a_dark_mode(device, broker, nobody, look):
    """The form, what is wrong, what is tried, what comes next."""
    site = Page(int(device.url.rstrip("/").rpartition(":")[2]))
    look(site.request("GET", "/")[2])
    assert "ds18x20: 21.0 Cel" in site.text
    wifi = {"ssid": "attic", "key": "the-wifi-key", "host": "127.0.0.1"}
    assert site.submit(**wifi, port=nobody) == 303
    assert "<progress" in site.request("GET", "/")[2]
    look(site.text)
    assert site.told().startswith("No broker")
    look(site.text)
    assert site.try_(**wifi, port=broker.port).startswith("Saved.")
    look(site.text)


def test_neither_have_the_pages_of_a_device_with_a_configuration(machine, look):
    code = {"code": "the-set-up-code"}
    machine.configure(wifi_ssid="attic", wifi_key="the-old-key", setup=code)
    (machine.home / "next-start").write_text("soft")
    (machine.home / "remembered").write_bytes(b"gone" + (3600).to_bytes(2, "little"))
    site = Page(int(waiting(machine).url.rstrip("/").rpartition(":")[2]))
    look(site.text or site.request("GET", "/")[2])
    assert site.try_(ssid="attic", key="the-wifi-key", code="a-wrong-code").startswith("The code is wrong")
    look(site.text)
    assert site.try_(ssid="attic", key="the-wifi-key", **code).startswith("Saved")
    look(site.text)
