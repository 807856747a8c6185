"""PICOW_UF2: firmware of a person's own for the emulated Pico W."""

import hashlib
import os

import pytest

pytest.importorskip("rp2040py", reason="rp2040py is not installed: run `make setup`")

from host_tests.tools.boards.made_firmware import BANNER, pico_firmware
from inflight_tools.boards.build import bundle
from inflight_tools.boards.frozen import of
from tools.emulators.pico_w import own

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")


def firmware(board=""):
    told = str(of(bundle.modules("rp2040"), board)).encode()
    return pico_firmware(banner=BANNER + b"\0" + told)


def test_each_that_is_named_tells_what_it_is(tmp_path, monkeypatch):
    contents = {"library.uf2": firmware(), "application.uf2": firmware("rp2040")}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setenv("PICOW_UF2", os.pathsep.join(str(tmp_path / name) for name in contents))
    found = own.firmware()
    for (name, content), one in zip(contents.items(), found, strict=True):
        frozen = name.removesuffix(".uf2")
        assert str(one) == f"{name}, {frozen} frozen, SHA-256 {hashlib.sha256(content).hexdigest()}"
    assert "/app.image" in found[0].files() and "/lib/inflight/core.mpy" not in found[0].files()
    assert found[1].files() == {}


def test_one_with_a_rom_file_system_has_the_modules_there(tmp_path, monkeypatch):
    content = pico_firmware(rom=(0x100F_A000, 256 * 1024))
    (tmp_path / "rom.uf2").write_bytes(content)
    monkeypatch.setenv("PICOW_UF2", str(tmp_path / "rom.uf2"))
    (found,) = own.firmware()
    assert str(found) == f"rom.uf2, modules in ROM, SHA-256 {hashlib.sha256(content).hexdigest()}"
    assert set(found.files()) == {"/main.py", "/boot.py"}


def test_none_is_named(monkeypatch):
    monkeypatch.delenv("PICOW_UF2", raising=False)
    assert own.firmware() == []


@pytest.mark.parametrize(
    "content, problem",
    [
        (None, "no file"),
        (b"x" * 512, "the firmware is no UF2"),
        (pico_firmware(), "it has neither modules of Inflight frozen in nor a ROM file system"),
        (pico_firmware(banner=BANNER + b"\0inflight/__init__.py\0"), "does not tell of which release"),
    ],
    ids=["missing", "other", "stock", "no stamp"],
)
def test_what_is_of_no_use_is_refused(tmp_path, monkeypatch, content, problem):
    if content is not None:
        (tmp_path / "it.uf2").write_bytes(content)
    monkeypatch.setenv("PICOW_UF2", str(tmp_path / "it.uf2"))
    with pytest.raises(ValueError, match=f"^PICOW_UF2: .*{problem}") as e:
        own.firmware()
    assert "\n" not in str(e.value)
