"""Machine code for the processor of a board: which MicroPython imports it, and who gets it."""

import itertools
import json
import subprocess
from dataclasses import replace

import pytest

import announcement
from host_tests.absent import interpreter
from host_tests.tools.boards.made_firmware import BANNER, esp_firmware, pico_firmware
from host_tests.tools.boards.standin import StandIn, flash
from host_tests.tools.command import succeeded
from inflight_tools.boards import deploy
from inflight_tools.boards.build import bundle, native
from inflight_tools.boards.images import board_image, variants
from inflight_tools.cache import write_below
from inflight_tools.update import keys, release

JOURNAL = "/lib/inflight/journal_core.mpy"
FEW = (JOURNAL, "/lib/inflight/core.mpy", "/lib/inflight/__init__.mpy")  # what it needs to be imported
EMITTER = b"\0ptr32\0"
_IMPORT = """
import sys
found = []
for name in {names!r}:
    try:
        __import__("loops_" + name)
        found.append(name)
    except ValueError:
        pass
print([sys.implementation._mpy, found])
"""


@pytest.mark.parametrize("name", ["micropython-x64", "micropython-x86", "micropython-armhf"])
def test_micropython_imports_what_it_is_said_to_import(tmp_path, name):
    """Device and tools decide as MicroPython does. An ARM one takes code for earlier processors."""
    found = interpreter(name)
    source = "def first(data: ptr8) -> int:\n    return data[0]\n"
    names = [one for one in native.PROCESSORS if one]
    code = {f"loops_{one}.mpy": bundle.compile_mpy(source, "loops", processor=one) for one in names}
    write_below(tmp_path, code)
    command = [*found.command(), "-c", _IMPORT.format(names=names)]
    env = {"MICROPYPATH": str(tmp_path)}
    told = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    mpy, imported = json.loads(told.replace("'", '"'))
    assert imported
    assert [one for one in names if native.imports(mpy, native.number(one))] == imported
    assert [one for one in names if announcement.imports(mpy, native.number(one))] == imported
    assert announcement.imports(mpy, native.number(""))


def test_device_and_tools_decide_alike():
    forms = [6 | version << 8 | n << 10 for version in (2, 3) for n in range(1, 12)]
    for mine, wanted in itertools.product([*forms, 6, 5 | 3 << 8 | 2 << 10, native.number("x64") | 1 << 16], forms):
        assert native.imports(mine, wanted) == announcement.imports(mine, wanted), (mine, wanted)
    assert not announcement.imports(5, 6)


@pytest.mark.parametrize("processors, gets", [(["xtensawin", "x64"], "x64"), (["", "x86"], "")])
def test_deploy_asks_the_board_for_its_processor(tmp_path, monkeypatch, processors, gets):
    """A folder may stand for several processors: what the board does not import never gets there."""
    found = interpreter("micropython-x64")
    chips = tuple(variants.Variant(one, "unix", "", 64, "", "", processor=one) for one in processors)
    boards = variants.boards()
    monkeypatch.setattr(variants, "boards", lambda: boards | {"unix": replace(boards["unix"], variants=chips)})

    def few(board, **of):
        return {path: code for path, code in bundle.files(board, **of).items() if path in FEW}

    monkeypatch.setattr(deploy, "files", few)
    said = []
    with StandIn(tmp_path, found, blocks=256) as there:
        deploy.deploy("unix", there.port, {"/config.json": b"{}"}, say=said.append)
        with deploy.Link(there.port) as link:
            link.run("import inflight.journal_core")
    code = bundle.files("unix", processor=gets)[JOURNAL]
    assert native.PROCESSORS[code[2] >> 2 & 15] == gets  # a .mpy file's third byte
    assert flash(tmp_path)[JOURNAL] == code
    assert [line for line in said if "machine code" in line] == ([f"machine code for {gets}"] if gets else [])


@pytest.mark.parametrize(
    "version, emitter, fits",
    [("1.26.1", True, True), ("1.26.1", False, False), ("1.22.2", True, False), ("1.99.0", True, False)],
)
def test_a_firmware_tells_what_it_imports(version, emitter, fits):
    firmware = BANNER.replace(b"1.26.1", version.encode()) + (EMITTER if emitter else b"")
    assert native.of_firmware(firmware, "armv6m") == ("armv6m" if fits else "")


@pytest.fixture
def asked(monkeypatch):
    """[(folder, processor)] of the applications that were compiled."""
    found = []

    def files(folder, number=None, processor=""):
        found.append((folder, processor))
        return {"/main.py": b"", "/lib/app.mpy": b"app"}

    monkeypatch.setattr(bundle, "files", files)
    return found


@pytest.mark.parametrize("board", ["esp32", "esp32c3", "pico_w"])
def test_an_image_has_what_its_firmware_imports(tmp_path, asked, board):
    chosen, banner = variants.variant(board), BANNER + EMITTER
    made = pico_firmware(banner=banner) if board == "pico_w" else esp_firmware(board, chosen.bootloader, banner=banner)
    (tmp_path / "firmware").write_bytes(made)
    board_image.make_bare(chosen, tmp_path / "firmware", "")
    assert asked == [(chosen.folder, chosen.processor)]


@pytest.fixture(scope="module")
def signing_key(tmp_path_factory):
    path = tmp_path_factory.mktemp("key") / "release.key"
    keys.generate(path)
    return path


@pytest.mark.parametrize(
    "words, folder, processor",
    [
        (["--board", "pico_w"], "rp2040", "armv6m"),
        (["--board", "pico2_w"], "rp2040", "armv6m"),  # one release for both
        (["--board", "esp32c6"], "esp32", "rv32imc"),
        (["--board", "esp32", "--bytecode"], "esp32", ""),
        (["--board", "rp2040"], "rp2040", ""),  # the folder
    ],
)
def test_a_release_tells_what_imports_it(tmp_path, asked, signing_key, words, folder, processor):
    done = succeeded("release", *words, "--number", 1, "--signing-key", signing_key, "--out", tmp_path / "r")
    fields = release.load(tmp_path / "r").fields
    assert (fields["board"], fields["mpy"], asked) == (folder, native.number(processor), [(folder, processor)])
    assert (f"machine code for {processor}" in done.output) == bool(processor)
