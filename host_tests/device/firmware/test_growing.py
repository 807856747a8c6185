"""A Pico's journal grows with the configuration, and keeps what is in it."""

import json
import os

import assemble
from harness import eq
from littlefs_model import ROOT, Board, at_root
from ports_rp2040 import Rp2040
from scratch import Folder

RUNTIMES = "cpython micropython-x86"


def started(flash, kb, usual=64):
    """The application after a start with `journal_kb`; None: it is not configured, and the board has `usual`."""
    flash.boot()
    chip = Rp2040()
    chip.flash = flash.supply
    chip.board.JOURNAL_KB = usual
    given = {"host": "broker.example", "wifi_ssid": "net", "wifi_key": "12345678"}
    with Folder() as folder, at_root():
        folder.write("config.json", json.dumps(dict(given, journal_kb=kb) if kb else given))
        return assemble.build(chip.board, 0, path=folder.at("config.json"))


def test_a_larger_journal_keeps_its_messages():
    flash = Board(200, 512, 256)
    mids = []
    epochs = set()
    for kb, size in ((12, 12), (20, 20), (16, 20), (90, 20), (24, 24)):  # 90: there is no space
        app = started(flash, kb)
        eq((app.journal.size, len(os.listdir(ROOT + "/journal"))), (size * 1024, size * 2))
        client = app.client
        eq([client.is_pending(mid) for mid in mids], [True] * len(mids))
        eq(client.pending, len(mids))
        for qos in (1, 2):
            mids.append(client.publish("attic/temperature", "21.4", qos))
        epochs.add(app.journal.epoch)
        eq(app.journal.next_seq, len(mids))
    eq(len(epochs), 1)
    flash.power_off()  # the next test needs its space


def test_the_size_that_no_configuration_tells():
    """That of the board, unless a journal is there: it keeps its size and its messages."""
    flash = Board(140, 512, 256)
    app = started(flash, None, 16)
    mid = app.client.publish("attic/temperature", "21.4", 1)
    epoch = app.journal.epoch
    for kb, size in ((None, 16), (20, 20), (None, 20)):
        app = started(flash, kb, 40)
        eq((app.journal.size, len(os.listdir(ROOT + "/journal"))), (size * 1024, size * 2))
        eq((app.journal.epoch, app.client.is_pending(mid), app.client.pending), (epoch, True, 1))
    flash.power_off()


def test_a_smaller_journal_where_there_is_no_space_for_the_board_s():
    flash = Board(200, 512, 256)
    eq(started(flash, None, 96).journal.size, 64 * 1024)
    flash.power_off()
