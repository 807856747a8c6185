"""A board that does not exist, made from a copy of another one as boards/README.md tells: the tools take it by its
name, and no line of them is changed."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from host_tests.tools.boards.made_firmware import pico_firmware
from tools.setup.common import CHECKOUT

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")  # who adds a board is a maintainer

WORKER = "new board"

NEW = {
    'platform = "rp2"': 'platform = "linux"',  # the stand-in is a process
    '"pico_w"': '"abacus_w"',
    '"RPI_PICO_W-20250911-v1.26.1.uf2"': '"ABACUS_W.uf2"',
    '"RPI-RP2"': '"ABACUS"',
}


@pytest.fixture(scope="module")
def inflight(tmp_path_factory):
    """inflight(words): runs the command of a checkout with the board "abacus"."""
    checkout = tmp_path_factory.mktemp("checkout")
    for name in ("lib", "firmware", "boards", "tools/inflight_tools"):
        shutil.copytree(CHECKOUT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    board = checkout / "boards/abacus"
    shutil.copytree(checkout / "boards/rp2040", board)
    text = (board / "board.toml").read_text()
    text = text.replace(text[text.rindex("[[variants]]") :], "")  # one of the two is enough
    for old, new in NEW.items():
        assert old in text
        text = text.replace(old, new)
    (board / "board.toml").write_text(re.sub(r'sha256 = ".*"', f'sha256 = "{"0" * 64}"', text))
    module = (board / "board.py").read_text()
    (board / "board.py").write_text(module.replace('NAME = "rp2040"', 'NAME = "abacus"'))
    (checkout / "config.json").write_text('{"host": "b", "wifi_ssid": "attic", "wifi_key": "secret-key"}')
    (checkout / "firmware.uf2").write_bytes(pico_firmware())
    env = {**os.environ, "PYTHONPATH": f"{checkout}/tools:{checkout}/lib", "INFLIGHT_CACHE": str(checkout / "cache")}

    def run(*words):
        argv = [sys.executable, "-c", "import inflight_tools.cli as cli; cli.main()", *map(str, words)]
        done = subprocess.run(argv, cwd=checkout, env=env, capture_output=True, text=True)
        assert not done.returncode, done.stdout + done.stderr

    run.folder = checkout
    return run


def test_image_manifest_and_release(inflight):
    words = "--board abacus_w --firmware firmware.uf2 --config config.json --out abacus.uf2"
    inflight("board", "image", *words.split())
    content = (inflight.folder / "abacus.uf2").read_bytes()
    files = b"".join(content[at + 32 : at + 288] for at in range(0, len(content), 512))
    assert b"abacus" in files and b"secret-key" in files
    inflight("board", "freeze", "frozen", "--board", "abacus", "--application")
    modules = {path.stem for path in (inflight.folder / "frozen").rglob("*.py")}
    assert {"board", "power", "radio", "app"} <= modules
    assert "$(PORT_DIR)/boards/manifest.py" in (inflight.folder / "frozen/manifest.py").read_text()
    inflight("keys")
    inflight(*["release", "--board", "abacus", "--number", "1", "--out", "abacus.release"])
    assert b'"board":"abacus"' in (inflight.folder / "abacus.release").read_bytes()
