"""A FileFlash on a disk that fails: what a failed fsync left behind, and a write that takes a part of its bytes."""

import builtins
import os
import random
from errno import EIO

import pytest

from account import Account, quick_crc
from host_tests.thorough import some
from inflight import FileFlash, Journal
from inflight.flash.slots import SlotFlash
from inflight.journal.journal import DONE, OUT

PAGE = 64


class Disk:
    """Linux: what is written is read back from memory at once, and is on the disk after a sync. A sync that fails
    forgets what it ought to have written; a power cut loses some of what is not on the disk."""

    def __init__(self, path, monkeypatch):
        self.begin(path)
        self.most = None  # bytes that one write() takes
        self.fds = set()
        self._open, self._fsync = builtins.open, os.fsync
        monkeypatch.setattr(builtins, "open", self.open)
        monkeypatch.setattr(os, "fsync", self.fsync)

    def begin(self, path):
        """Another file."""
        self.path = str(path)
        self.data = b""
        self.dirty = set()
        self.failures = 0  # so many syncs fail,
        self.until = 0  # after so many

    def open(self, path, mode="r", *args, **options):
        file = self._open(path, mode, *args, **options)
        return Raw(self, file) if mode == "r+b" else file

    def fsync(self, fd):
        if fd not in self.fds:
            return
        if self.failures and self.until:
            self.until -= 1
        elif self.failures:
            self.failures -= 1
            self.dirty.clear()
            raise OSError(EIO, "the disk failed")
        self._write_back(self.dirty)

    def _write_back(self, pages):
        with self._open(self.path if os.path.exists(self.path) else self.path + ".new", "rb") as file:
            cache = file.read()
        data = bytearray(self.data or cache)  # a new file is whole
        for page in pages:
            data[page * PAGE : page * PAGE + PAGE] = cache[page * PAGE : page * PAGE + PAGE]
        self.data = bytes(data)
        self.dirty.clear()

    def cut_power(self, random):
        self._write_back([page for page in sorted(self.dirty) if random.getrandbits(1)])
        with self._open(self.path, "wb") as file:
            file.write(self.data)


class Raw:
    def __init__(self, disk, file):
        self._disk, self._file = disk, file
        self.seek, self.readinto, self.fileno = file.seek, file.readinto, file.fileno
        disk.fds.add(file.fileno())

    def write(self, data):
        data = bytes(data)[: self._disk.most]
        at = self._file.tell()
        self._disk.dirty.update(range(at // PAGE, (at + len(data) - 1) // PAGE + 1))
        return self._file.write(data)

    def close(self):
        if not self._file.closed:
            self._disk.fds.discard(self._file.fileno())
        self._file.close()


class Flash(FileFlash):
    def snapshot(self):
        with open(self.path, "rb") as file:
            return file.read()


def begin(disk, account):
    """The next process, which starts until the disk does not fail. Returns the account, which has judged."""
    while True:
        flash = None
        try:
            flash = Flash(disk.path, 4, 512)
            flash.path = disk.path
            if not account:
                return Account(flash)
            account.flash = flash
            account.restart()
            return account
        except OSError:
            if flash:
                flash.close()


def story(disk, random):
    """Messages that are accepted and completed while syncs fail, processes end and power is cut: the account judges
    what is there after each of these."""
    account = None
    for _ in range(random.randrange(1, 4)):
        for _ in range(random.randrange(1, 4)):  # processes
            account = begin(disk, account)
            for _ in range(random.randrange(40)):
                if not random.randrange(6):
                    disk.failures, disk.until = random.randrange(1, 3), random.randrange(8)
                try:
                    if account.begun or account.journal.failed:
                        account.failed()
                    account.work(1)
                except OSError:
                    pass
            account.flash.close()
        disk.cut_power(random)
        disk.failures = 0
        account = begin(disk, account)
        account.flash.close()


def test_no_message_is_lost_after_a_sync_that_failed(tmp_path, monkeypatch):
    disk = Disk(tmp_path, monkeypatch)
    quick_crc(monkeypatch.setattr)
    for seed in some(range(200), 6):
        disk.begin(tmp_path / str(seed))
        story(disk, random.Random(seed))


def test_what_a_failed_sync_left_is_written_again_before_anything_is_read(tmp_path, monkeypatch):
    disk = Disk(tmp_path / "journal", monkeypatch)
    flash = FileFlash(disk.path, 4, 512)
    flash.program(5, b"first", 0, 5)
    disk.failures = 2
    with pytest.raises(OSError, match="the disk failed"):
        flash.ioctl(3, 0)
    with pytest.raises(OSError, match="the disk failed"):
        flash.readblocks(0, bytearray(5), 5)
    assert disk.data[5:10] == b"\xff" * 5
    flash.readblocks(0, bytearray(5), 5)
    assert disk.data[5:10] == b"first"
    flash.close()


def test_a_write_of_a_part_is_finished(tmp_path, monkeypatch):
    disk = Disk(tmp_path / "journal", monkeypatch)
    disk.most = 7
    flash = FileFlash(disk.path, 6, 1024)
    journal = Journal(flash)
    for k in range(40):
        at = journal.append(OUT, k, b"%03d" % k * 30, 90)
        if k < 30:
            journal.mark(at, DONE)
    journal.commit()
    journal = Journal(flash)
    assert (journal.live, journal.next_seq, journal.damaged) == (10, 40, 0)
    flash.close()


def test_a_file_that_takes_no_more_is_an_error(tmp_path, monkeypatch):
    """Also of a slot file: nothing counts as written that is not."""
    disk = Disk(tmp_path / "journal", monkeypatch)
    slots = SlotFlash(str(tmp_path / "slots"), 4, 512)
    slots.program(0, b"x", 0, 1)
    for device in (FileFlash(disk.path, 4, 512), slots):
        disk.most = 0
        if device is slots:
            device.close()  # the next program() opens the file on the disk
        with pytest.raises(OSError, match="make space"):
            device.program(100, b"message", 0, 7)
        disk.most = 3
        device.program(100, b"message", 0, 7)
        found = bytearray(7)
        device.readblocks(0, found, 100)
        assert found == b"message"
        device.close()
