"""Firmware and a package of web tools for the installer."""

from types import SimpleNamespace

import pytest

from host_tests.tools.boards.made_firmware import esp_firmware
from inflight_tools.boards.build import bundle


@pytest.fixture
def made(tmp_path, monkeypatch):
    """`firmware`: of an ESP32; `out`: where the folder will be; release(): from now on the application is another. It
    has two small files."""
    files = {"/main.py": b"import app", "/lib/app.mpy": bytes(range(256)) * 40}
    monkeypatch.setattr(bundle, "files", lambda folder, processor="": dict(files))
    firmware = tmp_path / "firmware.bin"
    firmware.write_bytes(esp_firmware())
    newer = {"/lib/app.mpy": bytes(range(255, -1, -1)) * 50}
    return SimpleNamespace(firmware=firmware, out=tmp_path / "out", release=lambda: files.update(newer))
