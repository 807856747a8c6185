"""A journal file is locked against a second program, between all interpreters, until its process ends."""

import fcntl
import os
import signal
from errno import EACCES, EAGAIN
from pathlib import Path

import pytest

from host_tests.processes import running
from inflight import FileFlash

RUNTIMES = "micropython-x86"
MORE_RUNTIMES = "cpython micropython-x64"
SCRIPT = Path(__file__).parent / "device_scripts" / "hold_flash.py"


def is_refused(path):
    with pytest.raises(OSError, match="stop the other program") as caught:
        FileFlash(str(path), 4, 512)
    return caught.value.errno == EAGAIN


def test_lock_ends_with_its_process(runtime, tmp_path):
    path = str(tmp_path / "journal.bin")
    with running(runtime, SCRIPT, path) as holder:
        assert holder.stdout.readline() == "in use\n"
        assert is_refused(path)
        with running(runtime, SCRIPT, path) as other:
            assert "stop the other program" in other.stdout.read()
        holder.kill()
        holder.wait()
        FileFlash(path, 4, 512).close()


def test_every_name_of_the_file_is_locked(runtime, tmp_path):
    """The lock is that of the file: there is nothing beside it that could be deleted."""
    path = tmp_path / "journal.bin"
    for link, make in (("symlink", os.symlink), ("hard link", os.link)):
        with running(runtime, SCRIPT, str(path)) as holder:
            assert holder.stdout.readline() == "in use\n"
            assert [file.name for file in tmp_path.iterdir() if "link" not in file.name] == ["journal.bin"]
            make(path, tmp_path / link)
            assert is_refused(tmp_path / link)
            with running(runtime, SCRIPT, str(tmp_path / link)) as other:
                assert "stop the other program" in other.stdout.read()


def test_a_file_that_is_being_made_is_locked(tmp_path, monkeypatch):
    """Before it has its name, and from then on."""
    path = tmp_path / "journal.bin"
    refused = []

    def rename(old, new):
        refused.append(is_refused(path))
        real(old, new)
        refused.append(is_refused(path))

    real = os.rename
    monkeypatch.setattr(os, "rename", rename)
    device = FileFlash(str(path), 4, 512)
    assert refused == [True, True] and is_refused(path)
    device.close()


def test_another_process_makes_the_file_first(tmp_path, monkeypatch):
    """Its file counts, and is not replaced by a blank one."""
    path = tmp_path / "journal.bin"
    first = []

    def make(name, *args):
        if str(name) == f"{path}.new" and not first:
            first.append(None)
            first[0] = FileFlash(str(path), 4, 512)
            first[0].program(0, b"mine", 0, 4)
        return real(name, *args)

    real = open
    monkeypatch.setattr("builtins.open", make)
    assert is_refused(path)
    assert path.read_bytes()[:4] == b"mine"
    assert [file.name for file in tmp_path.iterdir()] == ["journal.bin"]
    first[0].close()


def test_the_file_is_replaced_before_it_is_locked(tmp_path, monkeypatch):
    """The file that has the name then is opened and locked."""
    path = tmp_path / "journal.bin"
    FileFlash(str(path), 4, 512).close()
    left = [b"new".ljust(2048, b"\xff")]

    def lock(*args):
        if left:
            (tmp_path / "other").write_bytes(left.pop())
            os.replace(tmp_path / "other", path)
        return real(*args)

    real = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lock)
    device = FileFlash(str(path), 4, 512)
    buf = bytearray(3)
    device.readblocks(0, buf)
    assert buf == b"new" and is_refused(path)
    device.close()


def test_a_child_process_has_no_part_in_the_file(tmp_path):
    """It can neither read nor write, and does not keep the lock when its parent has given it up."""
    path = str(tmp_path / "journal.bin")
    device = FileFlash(path, 4, 512)
    device.program(0, b"parent", 0, 6)
    ended, end = os.pipe()
    told, tell = os.pipe()
    child = os.fork()
    if not child:
        found = []
        for operation in (
            lambda: device.program(0, b"child", 0, 5),
            lambda: device.readblocks(0, bytearray(4)),
            lambda: device.ioctl(6, 0),
            lambda: device.ioctl(3, 0),
        ):
            try:
                operation()
                found.append("done")
            except OSError as e:
                found.append(str(e.errno))
        os.write(tell, " ".join(found).encode())
        os.close(end)
        os.read(ended, 1)  # lives on until the parent has seen all
        os._exit(0)
    try:
        assert os.read(told, 100).decode().split() == [str(EACCES)] * 4
        assert is_refused(path)
        device.program(6, b"!", 0, 1)
        device.ioctl(3, 0)
        assert Path(path).read_bytes()[:7] == b"parent!"
        device.close()
        FileFlash(path, 4, 512).close()
    finally:
        os.close(end)
        os.kill(child, signal.SIGKILL)  # a fork of a process with threads may wait for a lock that nobody releases
        os.waitpid(child, 0)
        for fd in (ended, told, tell):
            os.close(fd)


def test_a_disk_that_is_full(tmp_path):
    """What was written of the file does not fill it."""
    path = tmp_path / "journal.bin"
    os.symlink("/dev/full", f"{path}.new")
    with pytest.raises(OSError, match="No space"):
        FileFlash(str(path), 4, 512)
    assert not list(tmp_path.iterdir())
    FileFlash(str(path), 4, 512).close()
