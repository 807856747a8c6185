"""Landing files: what is durable, and what recovery finds after a crash at any point."""

import errno
import os
import shutil
import time

import pytest

from host_tests.tools.fleet.collect.collecting import Landing
from inflight_tools.fleet.collect import counters
from inflight_tools.fleet.collect.spool import Spool
from inflight_tools.fleet.lock import Busy


def lines(*numbers):
    return b"".join(b'{"text":"%d"}\n' % n for n in numbers)


@pytest.fixture
def crash(tmp_path):
    """crash(landing) is a copy of the folder as a crash now would leave it."""
    copies = []

    def copy(landing):
        copies.append(tmp_path / f"after-{len(copies)}")
        shutil.copytree(landing.folder, copies[-1])
        return Landing(copies[-1])

    return copy


def spool_of(landing):
    (name,) = landing.hidden(".spool")
    return landing.folder / name


def recovered(landing):
    spool = Spool(landing.folder, "c")
    try:
        assert landing.hidden(".spool") == []
        return landing.texts()
    finally:
        spool.close()


def test_finished_by_size(landing):
    spool = Spool(landing.folder, "c", size=3 * len(lines(0)))
    for n in range(6):
        spool.append(lines(n))
        assert spool.due() == (n % 3 == 2)
        if spool.due():
            spool.roll()
    assert landing.texts() == list("012345")
    assert len(landing.files) == spool.files == 2
    spool.append(lines(6))
    assert not spool.due()
    spool.close()
    assert landing.texts() == list("0123456")


def test_finished_by_age(landing, monkeypatch):
    spool, now = Spool(landing.folder, "c", age=5), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert not spool.due()
    spool.append(lines(1))
    assert not spool.due() and not landing.read()
    now[0] += 5
    assert spool.due()
    spool.roll()
    assert landing.texts() == ["1"] and not spool.due()
    spool.close()


def test_power_cut_at_any_byte(landing, crash):
    """The lines of every append() that returned are there, and no partial line, wherever the next write ended."""
    spool = Spool(landing.folder, "c")
    spool.append(lines(1))
    spool.append(lines(2, 3))
    later = lines(4, 5)
    for end in range(len(later) + 1):
        after = crash(landing)
        with open(spool_of(after), "ab") as file:
            file.write(later[:end])
        whole = later[:end].count(b"\n")
        assert recovered(after) == ["1", "2", "3", "4", "5"][: 3 + whole]
    spool.close()


@pytest.mark.parametrize("rest", [b"\0" * 64, b"\0\0\0\n" + lines(9), b"5\n" + lines(9), b"\xff\n"], ids=repr)
def test_power_cut_that_left_garbage(landing, crash, rest):
    """The disk may write blocks in any order. Data behind a hole was never acknowledged."""
    spool = Spool(landing.folder, "c")
    spool.append(lines(1))
    after = crash(landing)
    with open(spool_of(after), "ab") as file:
        file.write(rest)
    assert recovered(after) == ["1"]
    spool.close()


def test_spools_of_other_collectors_stay(landing):
    landing.folder.mkdir()
    (landing.folder / ".c-1-000000.spool").write_bytes(b'{"text":"1')  # without a whole line it goes
    (landing.folder / ".c-2-1-000000.spool").write_bytes(lines(1))
    Spool(landing.folder, "c").close()
    assert landing.hidden(".spool") == [".c-2-1-000000.spool"]


def test_power_cut_at_each_sync(landing, crash):
    """The lines of every append() that returned before are there."""
    durable, seen = [], []

    def sync(fd):
        if landing.folder.exists():
            seen.append((crash(landing), list(durable)))
        os.fsync(fd)

    spool = Spool(landing.folder, "c", size=40, sync=sync)
    for n in range(9):
        spool.append(lines(n))
        durable.append(str(n))
        if spool.due():
            spool.roll()
    spool.close()
    assert len(seen) >= 9
    for after, texts in seen:
        found = recovered(after)
        assert found[: len(texts)] == texts and len(found) <= len(texts) + 1


def test_names_are_unique(landing, monkeypatch):
    """Even if the clock shows the same time again, and the files were removed."""
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_123_000_000)
    names = set()
    for _ in range(3):
        spool = Spool(landing.folder, "c")
        for n in range(2):
            spool.append(lines(n))
            spool.roll()
        spool.close()
        for path in landing.folder.glob("*.ndjson"):
            names.add(path.name)
            path.unlink()
    assert len(names) == 6


def test_second_of_a_name(landing):
    first = Spool(landing.folder, "c")
    with pytest.raises(Busy, match=r"another collector named c is writing to .*landing: stop it, or take another name"):
        Spool(landing.folder, "c")
    Spool(landing.folder, "d").close()
    first.close()
    Spool(landing.folder, "c").close()


class Failing:
    """An fsync that raises `error`, if it is set."""

    def __init__(self):
        self.error = None

    def __call__(self, fd):
        os.fsync(fd)
        if self.error:
            raise OSError(self.error, os.strerror(self.error))


def test_sync_that_fails(landing, crash):
    """No line of the batch is read. The same batch can be appended again, and is read once."""
    sync = Failing()
    spool = Spool(landing.folder, "c", sync=sync)
    spool.append(lines(1))
    sync.error = errno.EIO
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            spool.append(lines(2))
    sync.error = None
    spool.append(lines(2))
    assert recovered(crash(landing)) == ["1", "2"]
    spool.close()
    assert landing.texts() == ["1", "2"]


def test_folder_that_cannot_be_synced(landing):
    """A file is not used while its name is not durable."""
    sync = Failing()
    spool = Spool(landing.folder, "c", sync=sync)
    sync.error = errno.ENOSPC
    with pytest.raises(OSError, match="No space"):
        spool.append(lines(1))
    assert landing.hidden(".spool") == []
    sync.error = None
    spool.append(lines(1))
    spool.close()
    assert landing.texts() == ["1"]


def test_write_that_ends_half_way(landing, monkeypatch):
    """The disk is full in the middle of a line. When it has space again, no partial line is between whole ones."""
    spool = Spool(landing.folder, "c")
    spool.append(lines(1))
    write, space = os.write, [7]

    def short(fd, data):
        if not space[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = write(fd, data[: space[0]])
        space[0] -= done
        return done

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", short)
        with pytest.raises(OSError, match="No space"):
            spool.append(lines(2, 3))
    spool.append(lines(2, 3))
    spool.close()
    assert landing.texts() == ["1", "2", "3"]


def test_final_name_exists(landing):
    """The file is not overwritten."""
    landing.folder.mkdir()
    (landing.folder / ".c-1-000000.spool").write_bytes(lines(1))
    (landing.folder / "c-1-000000.ndjson").write_bytes(lines(2))
    with pytest.raises(FileExistsError, match="names must be unique"):
        Spool(landing.folder, "c")
    assert landing.texts() == ["2"]


def test_links_are_not_followed(landing, tmp_path):
    """A link with the name of a spool, of the lock or of the counters: what it leads to stays as it is."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"not\nours")
    folder = landing.folder
    folder.mkdir(exist_ok=True)
    for name in (".c-1-000001.spool", ".counters.json", ".counters.json.new", ".d.lock"):
        (folder / name).symlink_to(victim)
    Spool(folder, "c").close()
    counters.save(folder / ".counters.json", {"at": 1})
    with pytest.raises(OSError) as caught:
        Spool(folder, "d")
    assert caught.value.errno == errno.ELOOP
    assert victim.read_bytes() == b"not\nours"
