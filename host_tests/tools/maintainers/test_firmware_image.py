"""Firmware images for emulated boards: all of the image, or none."""

import hashlib

import pytest

from tools.emulators.firmware_image import FirmwareImage, NoImage

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
CONTENT = bytes(range(256)) * 40
IMAGE = FirmwareImage("Pico W", "PICO.uf2", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("INFLIGHT_FIRMWARE", str(tmp_path))
    return tmp_path


def test_no_firmware_says_where_to_put_it(folder):
    with pytest.raises(NoImage, match=f"no Pico W firmware in {folder}: put PICO.uf2"):
        IMAGE.find()


@pytest.mark.parametrize("damaged", [CONTENT[:-512], CONTENT[:5000] + b"x" + CONTENT[5001:]])
def test_a_damaged_firmware_is_refused(folder, damaged):
    (folder / "PICO.uf2").write_bytes(damaged)
    with pytest.raises(NoImage, match="or not all of it"):
        IMAGE.find()


def test_the_whole_firmware_is_found(folder):
    (folder / "PICO.uf2").write_bytes(CONTENT)
    assert IMAGE.find() == folder / "PICO.uf2"
