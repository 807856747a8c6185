"""Announcements and chunks on a fake board: whatever comes, the device goes on."""

import struct
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

import log
from esp32_partitions import FIRST, SECOND, SECTOR, Chip, firmware
from inflight_tools.update import keys
from inflight_tools.update.release import make as make_release
from inflight_tools.update.release import parts, signed
from tools.setup.common import CHECKOUT
from update_record import TRIAL, Record, load, store

KEY = 128 * "kkkl"  # no public key of anybody
FORGED = b'{"release": 8}' + bytes(384)


@pytest.fixture
def app(make, broker, until):
    app = make(broker.port, update_keys=[KEY])
    until(app, lambda: [m for m in broker.arrived if m.topic.endswith("/status")])
    return app


def test_no_memory_for_an_update_ends_no_application(app, broker, monkeypatch, published, until):
    monkeypatch.setattr("updating.Update", Mock(side_effect=MemoryError))
    announce(broker, FORGED)
    broker.give("inflight/dev/command/ping", b"", 2)
    until(app, lambda: published("reply/ping"))
    assert app.update is None and not published("release") and "MemoryError" in log.text


def test_a_device_without_keys_subscribes_to_no_updates(make, broker, published, until):
    app = make(broker.port)
    announce(broker, FORGED)
    until(app, lambda: published("status"))
    filters = [name for session in broker.sessions.values() for name in session.subscriptions]
    assert filters and not [name for name in filters if "update" in str(name)]


def test_a_device_whose_launcher_does_not_run_tries_no_release_again(device, broker, published, until, tmp_path, key):
    record = Record()
    record.fetch(1, 300)
    record.begin_trial()  # the next start should have been that of the release
    store(str(tmp_path), record)
    broker.give("inflight/dev/update/manifest", make_release(FILES, key, 1, "ram").announcement, 1)
    until(device, lambda: published("release"))
    told = published("release")[0]
    assert (told["release"], told["state"]) == (1, "refused") and "main.py" in told["reason"]
    assert load(str(tmp_path)).state == TRIAL and not published("want")


def test_keys_that_cannot_be_read_are_not_replaced_by_older_ones(device, broker, published, until, tmp_path, release):
    """A release may have brought others than those of the configuration, since these are known to somebody."""
    record = Record()
    record.slot, record.release = 1, 1
    store(str(tmp_path), record)
    (tmp_path / "a.keys").mkdir()  # no file that can be read
    announce(broker, release.announcement)
    until(device, lambda: published("release"))
    assert states(published) == ["refused"] and not published("want")


def test_a_release_for_another_interpreter_is_refused(make, broker, published, until, key):
    app = make(broker.port, update_keys=[KEY, keys.public(key)])
    announce(broker, make_release(FILES, key, 1, "ram").announcement)
    until(app, lambda: published("release"))
    told = published("release")[0]
    assert (told["release"], told["state"]) == (1, "refused") and "it is for MicroPython" in told["reason"]


# --- what others send, who have no key ---

FILES = {"start.mpy": b"x" * 600, "node.mpy": b"y" * 600}


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "key"
    keys.generate(path)
    return keys.load(path)


@pytest.fixture
def device(make, broker, published, until, monkeypatch, key):
    """An application that takes the interpreter of this test for MicroPython, and accepts releases of `key`."""
    claimed = {"name": "micropython", "version": (1, 26, 1), "_mpy": 6}
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(**vars(sys.implementation) | claimed))
    app = make(broker.port, update_keys=[keys.public(key)])
    until(app, lambda: published("status"))
    return app


@pytest.fixture
def release(key):
    return make_release(FILES, key, 7, "ram")


def announce(broker, announcement):
    broker.give("inflight/dev/update/manifest", announcement, 1)


def give(broker, wanted, image, number=7):
    """Sends the part of `image` that the device wants."""
    for at in range(wanted["offset"], wanted["offset"] + wanted["bytes"], wanted["chunk"]):
        data = image[at : min(at + wanted["chunk"], wanted["offset"] + wanted["bytes"])]
        broker.give("inflight/dev/update/chunk", struct.pack("<II", number, at) + data, 1)


def states(published):
    return [told["state"] for told in published("release")]


def serve(app, broker, published, until, release, done=0):
    """Gives what the device asks for, from its request number `done` on, until it has everything."""
    while load(app.board.config_path().rpartition("/")[0]).state != TRIAL:
        until(app, lambda done=done: len(published("want")) > done or app.stopping)
        for wanted in published("want")[done:]:
            give(broker, wanted, release.image)
            done += 1


def test_broken_chunks_end_no_fetch(device, broker, published, until, release):
    """Neither of a length that leaves a few bytes for the buffer's last piece, nor of another offset or release; nor
    announcements that are empty, or too long."""
    announce(broker, release.announcement)
    until(device, lambda: published("want"))
    announce(broker, b"")
    announce(broker, bytes(2049))
    broken = [struct.pack("<II", number, at) + b"x" * 8 for number, at in ((7, 8), (8, 0), (7, 1 << 31))]
    for payload in (*broken, *map(bytes, range(1, 560, 5)), bytes(3000)):
        broker.give("inflight/dev/update/chunk", payload, 1)
    serve(device, broker, published, until, release)
    assert states(published) == ["fetch", "trial"] and not device.errors


# --- firmware ---

FIRMWARE = firmware(2, 2 * SECTOR + 100)


def firmware_release(key):
    """A release of FIRMWARE as the command makes it, which needs MicroPython's file for a board."""
    return signed(FIRMWARE, {"chip": 0, **parts(FIRMWARE)}, key, 7, "ram", 300, 6)


@pytest.fixture
def chip(device, monkeypatch):
    """The chip of `device`, which has two partitions for firmware."""
    chip = Chip()
    monkeypatch.syspath_prepend(CHECKOUT / "boards/esp32")
    monkeypatch.setitem(sys.modules, "esp32", chip.inside)
    monkeypatch.delitem(sys.modules, "firmware_slot", raising=False)
    return chip


def test_firmware_goes_into_the_other_partition(device, chip, broker, published, until, key, tmp_path):
    chip.content[SECOND][:] = firmware(7, 4 * SECTOR)
    release = firmware_release(key)
    announce(broker, release.announcement)
    serve(device, broker, published, until, release)
    record = load(str(tmp_path))
    assert (record.firmware, record.candidate, record.current) == (SECOND, 7, "")
    assert bytes(chip.content[SECOND][: len(FIRMWARE)]) == FIRMWARE
    assert states(published) == ["fetch", "trial"] and chip.selected == FIRST


def test_firmware_of_a_board_that_cannot_update_it_is_refused(device, broker, published, until, key, monkeypatch):
    monkeypatch.setitem(sys.modules, "firmware_slot", None)
    announce(broker, firmware_release(key).announcement)
    until(device, lambda: published("release"))
    assert published("release")[0]["reason"] == "the firmware of this board comes by cable only"


# --- what is told ---


def test_a_refusal_waits_while_the_journal_is_full(device, broker, published, until, monkeypatch, key):
    with monkeypatch.context() as full:
        full.setattr(device.journal, "fits", lambda kind, size: False)
        announce(broker, make_release(FILES, key, 7, "other").announcement)
        until(device, lambda: device.update)
        refused = device.full
        broker.give("inflight/dev/command/ping", b"", 2)
        until(device, lambda: device.full > refused)
        assert not published("release")
    until(device, lambda: states(published) == ["refused"] and device.update is None)
