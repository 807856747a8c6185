"""The pictures of the documentation."""

import struct
from xml.etree import ElementTree

import pytest

from host_tests.tools.fleet.report import made_facts
from inflight_tools.fleet.report import render
from tools import pictures
from tools.peers import chromium
from tools.setup.common import CHECKOUT

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
browser = pytest.mark.skipif(bool(chromium.unavailable()), reason=chromium.unavailable() or "there is one")


def size(png):
    assert png.startswith(b"\x89PNG")
    return struct.unpack(">II", png[16:24])


def test_a_terminal_shows_what_was_printed():
    svg = pictures.terminal("make demo", "\x1b[2m3.0 s\x1b[0m  2 power cuts\nNothing was lost")
    texts = ["".join(one.itertext()).replace("\xa0", " ") for one in ElementTree.fromstring(svg).findall(".//{*}text")]
    assert {"make demo", "3.0 s", "Nothing was lost"} <= set(texts) and b"http" not in svg.partition(b"<style>")[2]


@browser
def test_the_set_up_is_the_page_that_a_device_serves(tmp_path):
    pictures.main(["setup"], tmp_path)
    taken, kept = (folder / "setup.png" for folder in (tmp_path, CHECKOUT / "docs"))
    assert size(taken.read_bytes())[0] == size(kept.read_bytes())[0] == 390
    assert abs(size(taken.read_bytes())[1] - size(kept.read_bytes())[1]) < 50  # other fonts
    assert max(taken.stat().st_size, kept.stat().st_size) <= 60_000


@browser
def test_the_report_is_the_head_of_its_page(tmp_path):
    (tmp_path / "page.html").write_text(render(made_facts.fleet()))
    taken = pictures.report(tmp_path / "page.html")
    assert size(taken) == (1120, 680) and len(taken) < 200_000
