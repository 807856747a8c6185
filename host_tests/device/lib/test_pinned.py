"""Pinned files on a littlefs: the journal writes to their blocks only, and detects files that were changed."""

import os
import sys
import time
from binascii import crc32
from errno import EEXIST, EIO, ENODEV

from harness import CUT_STEP, EMULATED, SkipTest, eq, raises
from inflight.flash.pinned import Finder, PinnedFlash
from inflight.journal.journal import DONE, OUT, Journal
from littlefs_model import ROOT, Board, each_cut, files, free, read, write
from nor import before, noise
from test_journal import RecordOwner, bodies, put
from test_journal_alloc import Quiet, allocated, exchange, look

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"
FOLDER = ROOT + "/journal"
ENOSPC = 28
USER = {"/main.py": b"import this\n" * 100, "/lib": None, "/lib/data.bin": bytes(range(256)) * 5}


def stocked(*args):
    """A running board with other files."""
    board = Board(*args)
    board.boot()
    os.mkdir(ROOT + "/lib")
    for path, content in USER.items():
        if content:
            write(path, content)
    return board


def pin(board, n=6):
    return PinnedFlash(board.supply, n=n, root=ROOT, page=board.flash.page)


def names():
    return sorted(os.listdir(FOLDER))


def path_of(slot):
    return "/journal/" + names()[slot]


def block_of(slot):
    """The block on the board's flash, which the file's name tells."""
    return int(names()[slot].split("-")[1], 16)


def content(flash, slot):
    buf = bytearray(flash.ioctl(5, 0))
    flash.readblocks(slot, buf)
    return bytes(buf)


def on_flash(board, block):
    # To whatever file it belongs.
    buf = bytearray(board.flash.block_size)
    board.flash.readblocks(block, buf)
    return buf


def used(board):
    """A journal of ten messages, half of them done, after two restarts: the second one need not look for each file."""
    journal = Journal(pin(board))
    for k in range(10):
        at = put(journal, k)
        if k % 2:
            journal.mark(at, DONE)
    board.boot()
    pin(board)
    board.boot()
    return journal


def at_top():
    return sorted(set(os.listdir(ROOT)) - {"journal.sum"})


# --- journal ---


def test_first_use():
    board = stocked()
    blocks = free()
    flash = pin(board)
    eq((flash.where, flash.repaired, len(names())), ("pinned files", 0, 6))
    eq((flash.ioctl(4, 0), flash.ioctl(5, 0), flash.ioctl(3, 0)), (6, 512, 0))
    for name in names():
        eq(os.stat(FOLDER + "/" + name)[6], 512)
    eq(files(), USER)
    assert blocks - free() < 6 + 8
    eq([content(flash, i) for i in range(6)], [b"\xff" * 512] * 6)


def test_read_on_into_the_next_block():
    board = stocked()
    flash = pin(board)
    flash.writeblocks(1, b"\xff" * 29 + b"end", 480)
    flash.writeblocks(2, b"begin" + b"\xff" * 27, 0)
    for offset, n in ((509, 8), (500, 100), (511, 2), (480, 512 + 40)):
        buf = bytearray(n)
        flash.readblocks(1, buf, offset)
        k = 512 - offset
        eq(bytes(buf[max(0, k - 3) : k + 5]), b"endbegin"[max(0, 3 - k) :][: n - max(0, k - 3)])


def test_journal_wraps_around_and_is_mounted_again():
    shapes = ((512, 32, 6, 150), (4096, 256, 4, 700))
    for size, page, n, count in shapes[: 1 if EMULATED else 2]:
        board = stocked(20, size, page)
        flash = pin(board, n)
        journal = Journal(flash)
        mine = {block_of(slot) for slot in range(n)}
        touched, programs = set(), set()

        def watch(name, at, old, new):
            touched.add(at // size)
            if name == "program":
                programs.add((at % page, len(new)))

        board.flash.watch = watch
        places = journal.owner = RecordOwner()
        for k in range(count):
            places[k] = put(journal, k)
            if k >= 5 and k % 40:  # every fortieth stays live, and is copied around the ring
                journal.mark(places.pop(k), DONE)
        board.flash.watch = None
        assert journal.erases > 2 * n
        eq(touched, mine)
        eq(programs, {(0, max(page, 64))})
        board.boot()
        flash = pin(board, n)
        again = Journal(flash)
        eq((flash.repaired, again.damaged), (0, 0))
        eq([mid for mid, _ in bodies(again)], sorted(places))
        eq((again.next_seq, again.epoch, again.erases), (count, journal.epoch, journal.erases))
        eq(files(), USER)
        eq({os.stat(FOLDER + "/" + name)[6] for name in names()}, {size})


def test_no_heap():
    if sys.maxsize > 2**31:
        raise SkipTest("measures the heap of 32-bit MicroPython")
    board = stocked(46, 1024, 256)
    still = Quiet(256, 46)
    still.data = board.flash.data
    flash = PinnedFlash(still, n=4, root=ROOT, page=256)
    journal = Journal(flash)
    head, tail = bytearray(100), bytearray(58)
    laps = journal.erases
    eq(allocated(exchange, journal, head, tail, 200), 0)
    assert journal.erases > laps + 8
    for k in range(10):
        journal.append(OUT, k, head, 40)
    eq(allocated(look, journal, bytearray(64)), 0)
    eq(allocated(flash.readblocks, 0, bytearray(100), 1000), 0)


def test_other_files_while_a_journal_is_used():
    """They are written, added to, renamed and deleted at random, until the file system is full, among messages and
    restarts: the journal and the files are what they ought to be."""
    toss = noise(7)
    board = stocked(36)
    expected = files()
    journal = Journal(pin(board))
    places = journal.owner = RecordOwner()
    full = 0
    for k in range(60 if EMULATED else 240):
        dice = next(toss)
        path, data = "/lib/f%d" % (dice % 12), bytes([k]) * (dice // 16 % 1200)
        try:
            if dice % 7 < 3 or path not in expected:
                expected[path] = expected.get(path, b"")  # as soon as it is open
                write(path, data)
                expected[path] = data
            elif dice % 7 < 5:
                with open(ROOT + path, "ab") as f:
                    f.write(data)
                expected[path] += data
            else:
                os.rename(ROOT + path, ROOT + "/lib/f0")
                expected["/lib/f0"] = expected.pop(path)
        except OSError as e:
            eq(e.errno, ENOSPC)  # littlefs keeps the file as it was
            full += 1
            for path in [path for path in expected if path.startswith("/lib/f")][::2]:
                os.remove(ROOT + path)
                del expected[path]
        places[k] = put(journal, k)
        if len(places) > 3:
            journal.mark(places.pop(min(places)), DONE)
        if k % 40 == 39:
            journal.commit()
            board.boot()
            eq(files(), expected)
            flash = pin(board)
            journal = Journal(flash)
            eq((flash.repaired, journal.damaged, [mid for mid, _ in bodies(journal)]), (0, 0, sorted(places)))
            journal.owner = places
    assert full > 2 and journal.erases > 12, (full, journal.erases)


# --- the sum of the folder ---


def reads_of_a_start(board):
    board.boot()
    read, readblocks = [], board.supply.readblocks
    board.supply.readblocks = lambda *args: read.append(readblocks(*args))
    pin(board, 24)
    return len(read)


def test_files_are_looked_for_once():
    """A start does not read the folder for each file, as the first one after a change has to."""
    board = stocked(100)
    pin(board, 24)
    for change in (lambda: None, lambda: write("/journal/mine", b""), lambda: os.remove(FOLDER + "/mine")):
        change()
        looked = reads_of_a_start(board)
        for other in range(3):
            write("/lib/data.bin", bytes([other]) * 900)
            assert reads_of_a_start(board) * 6 < looked


def test_a_sum_that_is_not_the_folders():
    """The files are found as without it."""
    board = stocked()
    used(board)
    right = read("/journal.sum")
    for wrong in (b"", right[:4], right[:-4], right[:-1], right + b"1234", right[16:] + right[:16], b"x" * 999):
        write("/journal.sum", wrong)
        for _ in range(2):
            board.boot()
            flash = pin(board)
            eq((flash.repaired, len(bodies(Journal(flash)))), (0, 5))
        eq(read("/journal.sum"), right)
    os.remove(ROOT + "/journal.sum")
    os.mkdir(ROOT + "/journal.sum")
    for _ in range(2):
        board.boot()
        eq(len(bodies(Journal(pin(board)))), 5)


def test_no_two_states_of_a_folder_have_the_same_sum():
    """Each of littlefs' commits ends with a CRC: behind it the CRC of all is the same, whatever was written."""
    board = stocked(60, 4096, 256)
    pin(board, 3)
    seen = set()
    for k in range(120):
        write(path_of(0) if k % 3 else "/journal/z", bytes(4096))
        seen.add(Finder(board.supply).hash_of("/journal").digest())
    eq(len(seen), 120)


def test_power_cut_while_a_file_is_moved_away():
    for k in range(5):
        board = stocked()
        used(board)
        path = path_of(2)
        board.is_cut(k, before, lambda path=path: os.rename(ROOT + path, ROOT + "/lib/mine"))
        board.boot()
        found = files()
        flash = pin(board)
        for i in range(6):
            flash.ioctl(6, i)
        eq(files(), found)


def test_power_cut_while_the_sum_is_written():
    board = stocked()
    used(board)
    expected = bodies(Journal(pin(board)))
    write("/journal.sum", b"of another folder")
    cuts = 0
    for _ in each_cut(board, lambda: pin(board)):
        flash = pin(board)
        eq((flash.repaired, bodies(Journal(flash)), files()), (0, expected, USER))
        cuts += 1
    assert cuts * CUT_STEP > 3, cuts


# --- changed files ---


def remove(*slots):
    for path in [path_of(slot) for slot in slots]:
        os.remove(ROOT + path)


def copy_back(slot):
    # Written under another name first, so that it gets another block.
    path = path_of(slot)
    write("/copy", read(path))
    os.remove(ROOT + path)
    os.rename(ROOT + "/copy", ROOT + path)


def edit(slot):
    with open(ROOT + path_of(slot), "r+b") as f:
        f.seek(100)
        f.write(b"!")


def add_to(slot):
    with open(ROOT + path_of(slot), "ab") as f:
        f.write(b"!")


def truncate(slot):
    write(path_of(slot), b"")


def shorten(slot):
    path = path_of(slot)
    write(path, read(path)[:300])


def exchange_names(a, b):
    a, b = ROOT + path_of(a), ROOT + path_of(b)
    os.rename(a, a + "x")
    os.rename(b, a)
    os.rename(a + "x", b)


def renumber(slot, other):
    # Its name fits its content, but it is not the right file.
    name = names()[slot]
    remove(other)
    os.rename(FOLDER + "/" + name, FOLDER + "/%02d" % other + name[2:])


TAMPERING = (
    (remove, (2,)),
    (remove, (0, 3, 5)),
    (remove, (0, 1, 2, 3, 4, 5)),
    (copy_back, (0,)),
    (copy_back, (1,)),
    (edit, (2,)),
    (add_to, (1,)),
    (truncate, (1,)),
    (shorten, (0,)),
    (exchange_names, (1, 3)),
    (renumber, (1, 5)),
    (lambda slot: os.rename(ROOT + path_of(slot), ROOT + "/lib/mine"), (2,)),
)


def test_changed_files_are_detected():
    for tamper, slots in TAMPERING[2:7] if EMULATED else TAMPERING:
        board = stocked()
        used(board)
        tamper(*slots)
        users = files()
        board.boot()
        flash = pin(board)
        eq((tamper.__name__, flash.repaired), (tamper.__name__, len(slots)))
        eq([i for i in range(6) if content(flash, i) == b"\xff" * 512], sorted(slots))
        journal = Journal(flash)
        k = 200
        round_it = journal.erases + 7
        while journal.erases < round_it:  # around the whole ring
            journal.mark(put(journal, k), DONE)
            k = (k + 1) % 256
        put(journal, 77)
        eq(files(), users)
        board.boot()
        flash = pin(board)
        eq(flash.repaired, 0)
        assert 77 in [mid for mid, _ in bodies(Journal(flash))]


def test_a_copy_in_the_same_block_has_another_time():
    board = stocked()
    used(board)
    made = time.time()
    path = path_of(2)
    backup = read(path)
    while int(time.time()) <= made:
        pass
    fill_up()
    os.remove(ROOT + path)  # the only free block
    write(path, backup)
    for name in os.listdir(ROOT):
        if name.startswith("hog"):
            os.remove(ROOT + "/" + name)
    eq(where(board, path), int(path.split("-")[1], 16))
    board.boot()
    flash = pin(board)
    eq(flash.repaired, 1)
    eq(content(flash, 2), b"\xff" * 512)


# As deployed it has another name.
PINNING = {n: m for n, m in sys.modules.items() if n.startswith("inflight.") and Finder in m.__dict__.values()}


class Port:
    """Replaces the port within a with statement: its epoch is 1 January of `year`; littlefs stores modification times
    with this value in seconds since 1970, None: it stores none."""

    def __init__(self, year, changed):
        self._year = year
        self._changed = changed
        self._os = os

    def __enter__(self):
        self._replace(self, self)

    def __exit__(self, *_):
        self._replace(self._os, time)

    @staticmethod
    def _replace(os, time):
        for name, module in PINNING.items():
            module.os = os
            module.time = time
            sys.modules.pop(name, None)  # as deployed it is imported again, with these by their second names
        sys.modules["os"] = sys.modules["uos"] = os
        sys.modules["time"] = sys.modules["utime"] = time

    def __getattr__(self, name):
        return getattr(self._os, name)

    def stat(self, path):
        found = list(self._os.stat(path))
        since = 946_684_800 if self._year == 2000 else 0
        found[8] = 0 if self._changed is None else (self._changed - since) % 2**32
        return tuple(found)

    def gmtime(self, seconds):
        return (self._year, 1, 1, 0, 0, 0, 0, 1)


def test_another_epoch_of_the_port():
    """The same files are found, and a copy that has another time is not hidden."""
    for changed in (None, 0, 5, 946_684_800, 946_684_805, 1_800_000_000, 3_000_000_000):
        for year, other in ((1970, 2000), (2000, 1970)):
            board = stocked()
            with Port(year, changed):
                used(board)
            board.boot()
            with Port(other, changed):
                flash = pin(board)
            eq((changed, year, flash.repaired, len(bodies(Journal(flash)))), (changed, year, 0, 5))
            if changed == 1_800_000_000:
                os.remove(ROOT + "/journal.sum")  # a change of the time itself is written in the folder
                board.boot()
                with Port(year, changed + 1):
                    eq(pin(board).repaired, 6)


def where(board, path):
    return Finder(board.flash).block(path)


def fill_up(folder=""):
    """Fills the file system with other files."""
    size = os.statvfs(ROOT)[0]
    k = 0
    while size >= 512:
        try:
            write("%s/hog%d" % (folder, k), b"user" * (size // 4))
            k += 1
        except OSError as e:
            eq(e.errno, ENOSPC)
            size -= 512


def test_other_files_in_the_folder_stay():
    board = stocked()
    used(board)
    own = {"/journal/notes.txt": b"mine", "/journal/0110-1-2-3": b"x", "/journal/a.new": b"y"}
    for path, text in own.items():
        write(path, text)
    write("/journal/03.new", b"\xff" * 512)  # left by a power cut while a file was replaced
    board.boot()
    flash = pin(board)
    eq(flash.repaired, 0)
    eq(len(names()), 6 + 3)
    for path, text in own.items():
        eq(read(path), text)
    eq(len(bodies(Journal(flash))), 5)


def test_other_names_are_not_slots():
    board = stocked()
    pin(board)
    name = names()[0]
    text = "09" + name[2:].rsplit("-", 1)[0]  # a tenth of six
    forged = "%s-%04x" % (text, crc32(text.encode()) & 0xFFFF)
    os.rename(FOLDER + "/" + name, FOLDER + "/" + forged)
    board.boot()
    eq(pin(board).repaired, 1)
    eq(len(names()), 7)
    eq(forged in names(), True)


def test_running_journal_does_not_write_to_reused_blocks():
    board = stocked()
    flash = pin(board)
    journal = Journal(flash)
    for k in range(3):
        put(journal, k)
    blocks = [block_of(i) for i in range(6)]
    old = [on_flash(board, block) for block in blocks]
    remove(0, 1, 2, 3, 4, 5)
    fill_up()
    taken = [i for i in range(6) if on_flash(board, blocks[i]) != old[i]]
    assert 0 in taken and len(taken) >= 4, taken
    users = files()
    operations = board.flash.programs, sum(board.flash.erases)
    for _ in range(3):
        eq(raises(OSError, put, journal, 9).errno, EIO)
    for i in taken:
        eq(raises(OSError, flash.ioctl, 6, i).errno, EIO)
        eq(raises(OSError, flash.writeblocks, i, b"\0" * 64, 0).errno, EIO)
        eq(raises(OSError, flash.readblocks, i, bytearray(8), 40).errno, EIO)  # another file's data
        if i:
            eq(raises(OSError, flash.readblocks, i - 1, bytearray(8), 508).errno, EIO)
    eq((board.flash.programs, sum(board.flash.erases)), operations)
    board.boot()
    eq(files(), users)


# --- other file systems ---


def test_another_number_of_files():
    """Those that are there keep theirs, and their messages."""
    board = stocked()
    used(board)
    snapshot = board.flash.snapshot()
    for n in (5, 7):
        eq((pin(board, n).ioctl(4, 0), pin(board, n).repaired), (6, 0))
    eq(board.flash.snapshot(), snapshot)
    eq(len(bodies(Journal(pin(board, 9)))), 5)
    remove(*range(6))
    eq((pin(board, 0).ioctl(4, 0), pin(board, 0).repaired), (0, 0))


def test_files_of_two_sets():
    """Of two journals, put together by hand: which one counts is for a person to say."""
    board = stocked()
    used(board)
    text = "0007-20-0"
    write("/journal/%s-%04x" % (text, crc32(text.encode()) & 0xFFFF), b"x")
    found = files()
    assert "of sets of 6 and 7" in str(raises(ValueError, pin, board))
    eq(files(), found)


def test_full_file_system():
    board = stocked()
    write("/hog", b"x" * 512 * (free() - 6))
    users, blocks = files(), free()
    error = raises(OSError, pin, board)
    eq(error.errno, ENOSPC)
    assert "needs 5 KiB" in str(error), error
    eq((files(), free()), (users, blocks))
    os.remove(ROOT + "/hog")
    eq(pin(board).repaired, 0)


def test_full_file_system_at_a_repair():
    board = stocked()
    used(board)
    fill_up()
    remove(1, 4)
    os.mkdir(ROOT + "/more")
    fill_up("/more")
    left = names()
    users = files()
    eq(raises(OSError, pin, board).errno, ENOSPC)
    eq((files(), names()), (users, left))
    for path in users:
        if "hog" in path:
            os.remove(ROOT + path)
    eq(pin(board).repaired, 2)


def test_read_only():
    import vfs

    board = stocked()
    board.power_off()
    for there in (False, True):
        board.boot()
        if there:
            used(board)
        vfs.umount(ROOT)
        vfs.mount(vfs.VfsLfs2(board.supply, progsize=32), ROOT, readonly=True)
        snapshot = board.flash.snapshot()
        if there:
            eq(pin(board).repaired, 0)
        else:
            raises(OSError, pin, board)
        eq(board.flash.snapshot(), snapshot)


def test_not_on_this_device():
    stocked()
    other = Board()
    users, blocks = files(), free()
    error = raises(OSError, PinnedFlash, other.flash, "/journal", 6, ROOT, 32)
    eq(error.errno, ENODEV)
    other.flash.data[:] = b"\xff" * len(other.flash.data)
    eq(raises(OSError, PinnedFlash, other.flash, "/journal", 6, ROOT, 32).errno, ENODEV)
    eq((files(), free()), (users, blocks))


# --- power ---


def cut_everywhere(board, act, check):
    """Cuts the power of each_cut(), and at one operation during the next start; check() examines the state after the
    start that follows."""
    cuts = 0
    for k, how in each_cut(board, act):
        cuts += 1 + board.is_cut(k * 7 % 40, how, act)
        board.boot()
        check()
    print("power cut at", cuts, "points")
    assert cuts * CUT_STEP > 30


def test_power_cut_at_first_use():
    board = stocked(30)
    blocks = free()

    def check():
        flash = pin(board, 3)
        eq((flash.repaired, len(names())), (0, 3))
        eq(at_top(), ["journal", "lib", "main.py"])
        put(Journal(flash), 1)
        eq(files(), USER)
        for name in names():
            os.remove(FOLDER + "/" + name)
        os.rmdir(FOLDER)
        eq(free(), blocks)

    cut_everywhere(board, lambda: pin(board, 3), check)


def test_power_cut_at_a_repair():
    board = stocked(30)
    journal = Journal(pin(board, 3))
    put(journal, 1)
    blocks = free()
    copy_back(2)
    remove(1)

    def check():
        flash = pin(board, 3)
        assert flash.repaired <= 2
        eq(len(names()), 3)
        eq(at_top(), ["journal", "lib", "main.py"])
        eq(bodies(Journal(flash)), [(1, 0)])
        eq(files(), USER)
        eq(free(), blocks)

    cut_everywhere(board, lambda: pin(board, 3), check)


def grown(board, n):
    flash = pin(board)
    return flash.grow(Journal(flash), n)


def test_a_set_that_grows():
    """What is in it stays, and the other files; it takes the blocks of the new set alone, and those of their names."""
    board = stocked(80)
    journal = used(board)
    expected = bodies(Journal(pin(board)))
    blocks = free()
    flash, larger = grown(board, 9)
    for _ in range(2):
        eq((flash.ioctl(4, 0), larger.size, flash.repaired, len(names())), (9, 9 * 512, 0, 9))
        eq((bodies(larger), larger.epoch, larger.next_seq), (expected, journal.epoch, 10))
        eq(at_top(), ["journal", "lib", "main.py"])
        eq(files(), USER)
        board.boot()
        flash = pin(board)
        larger = Journal(flash)
    assert 3 <= blocks - free() <= 7, blocks - free()
    put(larger, 10)
    board.boot()
    eq(bodies(Journal(pin(board))), expected + [(10, 0)])


def test_a_set_does_not_shrink():
    board = stocked()
    used(board)
    snapshot = board.flash.snapshot()
    flash = pin(board)
    journal = Journal(flash)
    for n in (3, 6):
        assert flash.grow(journal, n) == (flash, journal)
    eq(board.flash.snapshot(), snapshot)


def test_power_cut_while_a_set_grows():
    """The larger set counts as soon as it is complete; until then the one before it."""
    board = stocked(60)
    used(board)
    expected = bodies(Journal(pin(board)))
    counts = set()

    def check():
        there = [name[2:4] for name in names() if name[4:5] == "-"]
        counts.add((there.count("06"), there.count("09")))
        flash = pin(board)
        eq((flash.ioctl(4, 0), flash.repaired), (9 if there.count("09") == 9 else 6, 0))
        eq((len(names()), at_top()), (flash.ioctl(4, 0), ["journal", "lib", "main.py"]))
        journal = Journal(flash)
        eq((bodies(journal), journal.damaged, journal.skipped), (expected, 0, 0))
        flash, journal = flash.grow(journal, 9)
        eq((bodies(journal), journal.size, len(names())), (expected, 9 * 512, 9))
        eq(files(), USER)

    cut_everywhere(board, lambda: grown(board, 9), check)
    assert (6, 0) in counts
    if CUT_STEP < 3:
        assert (6, 9) in counts and (0, 9) in counts


def test_files_of_others_are_not_in_the_way():
    """In the folder, and where earlier or interrupted sets have been."""
    board = stocked(80)
    used(board)
    expected = bodies(Journal(pin(board)))
    write("/journal/README", b"mine")
    write("/journal.old", b"mine")
    os.mkdir(ROOT + "/journal.new")
    write("/journal.new/mine", b"mine")
    users = files()
    for n in (9, 12):
        flash, journal = grown(board, n)
        eq((flash.ioctl(4, 0), bodies(journal), len(names())), (n, expected, n + 1))
        board.boot()
        eq(bodies(Journal(pin(board))), expected)
        eq((files(), read("/journal/README")), (users, b"mine"))


def test_a_first_set_where_others_have_its_name():
    for make in (lambda: write("/journal.new", b"mine"), lambda: os.mkdir(ROOT + "/journal.new")):
        board = stocked()
        make()
        if files()["/journal.new"] is None:
            write("/journal.new/mine", b"mine")
        users = files()
        error = raises(OSError, pin, board)
        eq(error.errno, EEXIST)
        assert "/journal.new" in str(error)
        eq(files(), users)


def test_what_fits_not_stays_where_it_is():
    """Whatever the journal has accepted, it grows; without space nothing is written, however often it starts."""
    for n, body in ((3, 457), (5, 40)):
        board = stocked(40)
        journal = Journal(pin(board, n))
        k = 0
        while journal.fits(OUT, body):
            put(journal, k, body)
            k += 1
        board.boot()
        expected = bodies(Journal(pin(board)))
        eq(len(expected), k)
        snapshot = board.flash.snapshot()
        for _ in range(2):
            flash, journal = grown(board, 20)
            eq((flash.ioctl(4, 0), bodies(journal), board.flash.snapshot()), (n, expected, snapshot))
            board.boot()
        flash, journal = grown(board, n + 1)
        eq((flash.ioctl(4, 0), bodies(journal)), (n + 1, expected))


def test_a_set_that_was_repaired_grows():
    """The health message tells of it all the same."""
    board = stocked(60)
    used(board)
    remove(3)
    flash, _ = grown(board, 9)
    eq((flash.ioctl(4, 0), flash.repaired), (9, 1))
    eq(pin(board).repaired, 0)


def test_wrong_numbers():
    board = stocked()
    flash = pin(board)
    for wrong in (256, "20", 20.0, True, None, -1):
        raises(ValueError, flash.grow, Journal(flash), wrong)
