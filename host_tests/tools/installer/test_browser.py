"""The page in headless Chromium: its button flashes a board. A stand-in for Web Serial leads to a fake bootloader."""

import contextlib
import functools
import http.server
import os
import select
import tty
from pathlib import Path

import pytest

from host_tests.tools.boards.esp_rom import EspRom
from host_tests.tools.boards.made_firmware import pico_firmware
from host_tests.tools.boards.site import running
from inflight_tools.boards import flash
from inflight_tools.boards.images.board_image import make_bare
from inflight_tools.boards.images.esp32_port import Esp32Port
from inflight_tools.boards.images.variants import variant
from inflight_tools.installer import folder
from inflight_tools.installer.web_tools import cached
from tools.peers import chromium

pytestmark = [
    pytest.mark.skipif(bool(chromium.unavailable()), reason=chromium.unavailable() or "there is one"),
    pytest.mark.skipif(not cached().exists(), reason="no esp-web-tools: `make setup-tests` fetches it with npm"),
]
WORKER = "browser"
SERIAL = Path(__file__).with_name("serial.js").read_text()
JOURNAL = slice(0x3F0000, 0x400000)
MESSAGES = b"undelivered messages" * 3000
# The elements of the page are in shadow trees.
FIND = """
function* all(root) {
  for (const e of root.querySelectorAll("*")) { yield e; if (e.shadowRoot) yield* all(e.shadowRoot); }
}
const appears = (text, kinds = "*") => new Promise((found) => {
  const look = () => {
    for (const e of all(document))
      if (e.matches(kinds) && !e.disabled && e.textContent.trim() === text) return found(e);
    setTimeout(look, 20);
  };
  look();
});
const press = async (text) => (await appears(text, "ew-text-button, ew-list-item")).click();
"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the folder, and the bytes of a serial port."""

    def do_POST(self):
        os.write(self.server.serial, self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(b"")

    def do_GET(self):
        if self.path != "/serial":
            return super().do_GET()
        ready, _, _ = select.select([self.server.serial], [], [], 1)
        return self._answer(os.read(self.server.serial, 1 << 16) if ready else b"")

    def _answer(self, content):
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(path, port):
    """A server of folder `path` and of the terminal `port`. Yields its URL."""
    with running(functools.partial(Handler, directory=path)) as server:
        server.serial = os.open(port, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(server.serial)
        yield f"{server.url}/"
    os.close(server.serial)


def by_command(rom, firmware):
    """Writes to the board what `inflight board flash` writes."""
    with Esp32Port(rom.port, "esp32") as port:
        flash.write(make_bare(variant("esp32"), firmware, ""), port, False)


def test_the_page_writes_what_the_command_writes(browser, made):
    """Byte by byte, on a board with an application and a journal: the journal stays."""
    with EspRom() as rom:
        by_command(rom, made.firmware)
        rom.flash[JOURNAL] = MESSAGES.ljust(JOURNAL.stop - JOURNAL.start, b"\xff")
        before = bytes(rom.flash)
    made.release()
    with EspRom() as rom:
        rom.flash[:] = before
        by_command(rom, made.firmware)
        wanted = bytes(rom.flash)
    assert wanted != before
    folder.write(made.out, ["esp32"], [f"esp32={made.firmware}"])
    with EspRom() as rom, served(made.out, rom.port) as url:
        rom.flash[:] = before
        page = browser.open(url, before=SERIAL + FIND)
        page.ask("document.querySelector('esp-web-install-button button').click()")
        for button in ("Install Inflight", "Next", "Install"):  # Next: without erasing
            page.ask(f"press('{button}')")
        while not page.ask("Promise.race([appears('🎉').then(() => true), new Promise((r) => setTimeout(r, 9000))])"):
            pass  # one question is answered within a minute; a busy machine may take longer
        assert rom.flash == wanted
        assert {request.split("/")[2] for request in page.requests()} == {url.split("/")[2]}


def test_a_browser_without_serial_ports(browser, made):
    folder.write(made.out, ["esp32"], [f"esp32={made.firmware}"])
    with EspRom() as rom, served(made.out, rom.port) as url:
        page = browser.open(url, before="delete Navigator.prototype.serial")
        shown = "document.querySelector('[slot=unsupported]').checkVisibility()"
        page.ask(f"customElements.whenDefined('esp-web-install-button').then(() => {shown})")
        assert page.ask(shown)
        assert not page.ask("document.querySelector('[slot=activate]').checkVisibility()")
        assert page.errors() == []


@pytest.mark.skipif(bool(chromium.no_axe()), reason=chromium.no_axe() or "there is one")
def test_the_page_has_no_barriers_and_a_dark_mode(browser, made, tmp_path):
    pico = tmp_path / "pico.uf2"
    pico.write_bytes(pico_firmware())
    folder.write(made.out, ["esp32", "pico_w"], [f"esp32={made.firmware}", f"pico_w={pico}"])
    with EspRom() as rom, served(made.out, rom.port) as url:
        for width, dark in ((390, False), (390, True), (1280, False), (1280, True)):
            page = browser.open(url, width=width, dark=dark)
            page.ask("customElements.whenDefined('esp-web-install-button').then(() => true)")
            assert page.violations() == []
            assert page.ask("document.querySelectorAll('main').length") == 1
            assert page.ask("document.documentElement.scrollWidth") == width
            touched = "[...document.querySelectorAll('button, a, summary')].filter(e => e.checkVisibility())"
            assert page.ask(f"{touched}.filter(e => e.getBoundingClientRect().height < 44).map(e => e.outerHTML)") == []
            red = int(page.ask("getComputedStyle(document.body).backgroundColor").strip("rgb()").split(",")[0])
            assert red < 40 if dark else red > 215
            page.picture(tmp_path / f"installer-{width}.png")
            assert page.errors() == []
