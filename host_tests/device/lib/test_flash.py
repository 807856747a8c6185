"""Block devices in files and in RAM."""

import os
import sys
from errno import EAGAIN

from harness import SkipTest, eq, raises
from inflight import FileFlash, Journal, RamFlash
from inflight.flash.slots import SlotFlash
from inflight.journal.journal import DONE, OUT

RUNTIMES = "cpython micropython-x64 micropython-x86 micropython-armhf native-x86"
MORE_RUNTIMES = "native-x64"
PATH = "/tmp/inflight-test-flash-" + os.urandom(4).hex()


def remove():
    for path in (PATH, PATH + ".new"):
        try:
            os.remove(path)
        except OSError:
            pass


def content():
    with open(PATH, "rb") as f:
        return f.read()


def devices(slots=False):
    remove()
    file = FileFlash(PATH, 4, 512)
    yield file
    file.close()
    remove()
    yield RamFlash(4, 512)
    if slots:
        flash = SlotFlash(PATH, 4, 512)
        eq(flash.ioctl(3, 0), 0)  # no file is open
        flash.close()
        flash = SlotFlash(PATH, 4, 512)  # the folder is there
        yield flash
        flash.close()
        for name in os.listdir(PATH):
            os.remove(PATH + "/" + name)
        os.rmdir(PATH)


def test_blocks():
    for device in devices():
        eq((device.ioctl(4, 0), device.ioctl(5, 0), device.ioctl(3, 0)), (4, 512, 0))
        buf = bytearray(600)
        device.readblocks(1, buf, 400)  # into the next block
        eq(bytes(buf), b"\xff" * 600)
        device.program(512 + 500, b"..abcdefghijklmnopqrstuvwxyz..", 2, 26)
        device.readblocks(1, buf, 400)
        eq(bytes(buf[100:126]), b"abcdefghijklmnopqrstuvwxyz")
        eq(bytes(buf[:100] + buf[126:]), b"\xff" * 574)
        device.ioctl(6, 1)
        device.readblocks(1, buf, 400)
        eq(bytes(buf[100:126]), b"\xff" * 12 + b"mnopqrstuvwxyz")


def test_journal_on_it():
    for device in devices(slots=True):
        journal = Journal(device)
        assert journal.largest > 400
        for k in range(60):
            at = journal.append(OUT, k, b"body", 4)
            if k < 58:
                journal.mark(at, DONE)
        again = Journal(device)
        eq((again.live, again.next_seq, again.epoch), (2, 60, journal.epoch))
        assert again.find(OUT, 0) >= 0
        eq(again.found_mid, 58)


def test_file_is_durable_when_append_returns():
    remove()
    device = FileFlash(PATH, 4, 512)
    journal = Journal(device)
    journal.append(OUT, 1, b"first message", 13)
    assert b"first message" in content()  # through another file object, while the first is open
    device.close()
    device = FileFlash(PATH, 4, 512)
    again = Journal(device)
    eq((again.live, again.epoch), (1, journal.epoch))
    device.close()
    remove()


def test_sizes_of_any_block():
    for blocks, size in ((3, 192), (5, 4096), (3, 512 + 64)):
        remove()
        FileFlash(PATH, blocks, size).close()
        eq(os.stat(PATH)[6], blocks * size)
        remove()


def test_file_of_another_size_is_not_touched():
    remove()
    with open(PATH, "wb") as f:
        f.write(b"something else")
    assert "14 bytes" in str(raises(ValueError, FileFlash, PATH, 4, 512))
    eq(content(), b"something else")
    remove()


def test_interrupted_creation():
    remove()
    with open(PATH + ".new", "wb") as f:
        f.write(b"half")
    FileFlash(PATH, 4, 512).close()
    eq(content(), b"\xff" * 2048)
    raises(OSError, os.stat, PATH + ".new")
    remove()


def test_missing_folder():
    raises(OSError, FileFlash, PATH + "-nowhere/journal", 4, 512)


def test_one_user_at_a_time():
    if sys.platform == "webassembly":
        raise SkipTest("has no flock(), and no other process")
    remove()
    first = FileFlash(PATH, 4, 512)
    error = raises(OSError, FileFlash, PATH, 4, 512)
    eq(error.errno, EAGAIN)
    assert PATH + " is in use: stop the other program" in str(error), error
    first.program(100, b"mine", 0, 4)  # it still works
    first.close()
    second = FileFlash(PATH, 4, 512)
    buf = bytearray(4)
    second.readblocks(0, buf, 100)
    eq(buf, b"mine")
    second.close()
    remove()


def test_a_refused_user_does_not_hold_the_file():
    remove()
    FileFlash(PATH, 4, 512).close()
    raises(ValueError, FileFlash, PATH, 5, 512)
    FileFlash(PATH, 4, 512).close()
    remove()


def test_sync_reaches_the_disk():
    if not hasattr(os, "fsync"):
        raise SkipTest("flush() is the fsync of MicroPython")
    remove()
    device = FileFlash(PATH, 4, 512)
    synced = []
    real = os.fsync
    os.fsync = synced.append
    try:
        journal = Journal(device)
        del synced[:]
        journal.append(OUT, 1, b"body", 4)
        journal.commit()
        journal.commit()
    finally:
        os.fsync = real
    eq(len(synced), 1)
    device.close()
    remove()


def test_a_new_files_directory_entry_is_durable():
    if not hasattr(os, "fsync"):
        raise SkipTest("nobody sees MicroPython's fsync")
    remove()
    done = []
    real = os.fsync, os.rename

    def fsync(fd):
        done.append("synced " + os.readlink("/proc/self/fd/%d" % fd))

    def rename(old, new):
        done.append("renamed")
        real[1](old, new)

    os.fsync, os.rename = fsync, rename
    try:
        device = FileFlash(PATH, 4, 512)
    finally:
        os.fsync, os.rename = real
    eq(done[:3], ["synced %s.new" % PATH, "renamed", "synced /tmp"])
    device.close()
    remove()
