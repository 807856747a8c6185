"""Where firmware comes from: a named file, the cache, a download site."""

import hashlib
import os
import socket

import pytest

from host_tests.tools.boards.site import serving
from inflight_tools.boards.images import firmware
from inflight_tools.boards.images.variants import Variant, names, variant

CONTENT = os.urandom(200_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PINNED = Variant("pico_w", "rp2040", "uf2", 64, "PICO.uf2", SHA256)
OTHER = Variant("esp32", "esp32", "esp32", 64, "ESP32.bin", "0" * 64)


@pytest.fixture
def site(monkeypatch):
    with serving(CONTENT, monkeypatch) as server:
        yield server


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("INFLIGHT_FIRMWARE", raising=False)
    monkeypatch.setenv("INFLIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache/firmware"


def refused(*words, **options):
    with pytest.raises(ValueError) as e:
        firmware.obtain(*words, **options)
    assert "\n" not in str(e.value)
    return str(e.value)


def test_the_pinned_firmware_is_downloaded_once(site, cache):
    """And again if it is damaged in the cache. The user's SHA-256 replaces a pin."""
    for _ in range(2):
        assert firmware.obtain(PINNED) == CONTENT
    assert site.asked == ["/files/PICO.uf2"]
    assert os.listdir(cache) == ["PICO.uf2"]
    (cache / "PICO.uf2").write_bytes(CONTENT[:-5])
    assert firmware.obtain(PINNED) == CONTENT
    assert (cache / "PICO.uf2").read_bytes() == CONTENT
    assert firmware.obtain(OTHER, None, SHA256.upper()) == CONTENT


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((200, CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]), len(CONTENT)), "/files/PICO.uf2: wrong SHA-256: it is "),
        ((200, CONTENT[:1000], len(CONTENT)), "the download ended early, 1000 of 200000 bytes: try again"),
        ((404, b"", 0), "/files/PICO.uf2: 404 Not Found: download it elsewhere and name it with --firmware"),
    ],
    ids=["wrong", "truncated", "missing"],
)
def test_a_bad_download_is_reported_and_not_cached(site, cache, answer, problem):
    site.answer = answer
    assert problem in refused(PINNED)
    assert not cache.exists()


def test_without_a_network(monkeypatch, cache, nobody):
    """And where the site does not answer."""
    monkeypatch.setenv("INFLIGHT_FIRMWARE_MIRROR", f"http://127.0.0.1:{nobody}")
    told = refused(PINNED)
    assert told.startswith("cannot download http://127.0.0.1:")
    assert "Connection refused: download it elsewhere" in told
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("INFLIGHT_FIRMWARE_MIRROR", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "timed out: download it elsewhere" in refused(PINNED, timeout_s=0.2)
    assert not cache.exists()


def test_the_cache_of_the_emulator_is_used(site, tmp_path):
    (tmp_path / ".cache/rp2040py").mkdir(parents=True)
    (tmp_path / ".cache/rp2040py/PICO.uf2").write_bytes(CONTENT)
    assert firmware.obtain(PINNED) == CONTENT
    assert site.asked == []


def test_a_named_file_needs_no_pin(site, tmp_path):
    (tmp_path / "mine.bin").write_bytes(b"mine")
    assert firmware.obtain(PINNED, tmp_path / "mine.bin") == b"mine"
    assert "mine.bin: wrong SHA-256" in refused(PINNED, tmp_path / "mine.bin", SHA256)
    assert "no file" in refused(PINNED, tmp_path / "none.bin")
    assert site.asked == []


def test_known_boards():
    for name in names():
        assert variant(name).name == name
        assert len(variant(name).sha256) in (0, 64)
    with pytest.raises(ValueError, match="no board unix: --board takes esp32, esp32s2, .*pico2_w"):
        variant("unix")
