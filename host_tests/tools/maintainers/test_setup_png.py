"""The picture of the set-up for the documentation."""

import struct

import pytest

from tools.demo import setup_png
from tools.peers import chromium
from tools.setup.common import CHECKOUT

pytestmark = [
    pytest.mark.long("INFLIGHT_TOOLS"),
    pytest.mark.skipif(bool(chromium.unavailable()), reason=chromium.unavailable() or "there is one"),
]


def size(png):
    assert png.startswith(b"\x89PNG")
    return struct.unpack(">II", png[16:24])


def test_the_picture_shows_the_page_that_the_device_serves(tmp_path):
    out = tmp_path / "setup.png"
    setup_png.main(out)
    kept = (CHECKOUT / "docs/setup.png").read_bytes()
    assert size(out.read_bytes())[0] == size(kept)[0] == 390
    assert abs(size(out.read_bytes())[1] - size(kept)[1]) < 50  # other fonts
    assert max(len(kept), out.stat().st_size) <= 60_000
