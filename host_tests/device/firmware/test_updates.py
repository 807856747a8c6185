"""Updates of the application: the record of their state, the launcher, a slot; power cuts at any operation of the
flash."""

import hashlib
import json
import os
import struct
import sys
from io import BytesIO

import launch
import scratch
import slot
import update_record
from harness import CUT_STEP, EMULATED, SkipTest, eq, raises
from scratch import Replaced, read, write
from update_record import BAD, FETCH, GOOD, IDLE, STARTS, TRIAL, Record, load, store, unpack

RUNTIMES = "cpython micropython-x86"

# --- the record: no I/O ---


def trial(slot=0, release=3, candidate=4):
    record = Record()
    record.slot, record.release = slot, release
    record.fetch(candidate, 300)
    record.begin_trial()
    return record


def test_a_trial_has_three_starts():
    """A release goes into the slot that does not run."""
    record = Record()
    eq((record.current, record.other), ("", "a"))
    for number, current, other in ((1, "a", "b"), (2, "b", "a"), (3, "a", "b")):
        record.fetch(number, 300)
        record.begin_trial()
        record.start(False)
        record.good()
        eq((record.state, record.outcome, record.release), (IDLE, GOOD, number))
        eq((record.current, record.other), (current, other))
    record = trial(1)
    eq([record.start(False) for _ in range(STARTS)], ["b"] * STARTS)
    eq(record.start(False), "a")
    eq((record.state, record.outcome, record.failed, record.release), (IDLE, BAD, 4, 3))
    eq(record.current, "a")


def test_a_start_that_a_power_cut_ends_does_not_count():
    record = trial()
    eq([record.start(k > 0) for k in range(10)], ["a"] * 10)
    eq([record.start(False) for _ in range(3)], ["a", "a", ""])
    record = trial(candidate=9)
    eq([record.start(True) for _ in range(21)], ["a"] * 20 + [""])  # nor do power cuts keep a release for ever
    eq((record.state, record.failed), (IDLE, 9))
    record.fetch(8, 300)
    record.bad()
    eq(record.failed, 9)  # the highest


def test_a_record_survives_its_bytes_and_no_flipped_bit():
    record = trial(2, 70_000, 70_001)
    record.n, record.failed = 12, 69_999
    record.start(False)
    data = record.pack()
    eq(vars_of(unpack(data)), vars_of(record))
    for i in range(len(data) * 8):
        bad = bytearray(data)
        bad[i // 8] ^= 1 << i % 8
        eq(unpack(bad), None)
    for n in range(len(data)):
        eq(unpack(data[:n]), None)


def vars_of(record):
    names = "n state slot left starts outcome good_s release candidate failed"
    return [getattr(record, name) for name in names.split()]


# --- files ---


class Folder(scratch.Folder):
    base = os.getcwd().rstrip("/") + "/"  # images are mounted in it


def test_the_newer_of_two_records_is_in_force():
    with Folder() as folder:
        eq(load(folder.path).n, 0)
        record = Record()
        for number in range(1, 6):
            record.fetch(number, 300)
            store(folder.path, record)
            eq(load(folder.path).candidate, number)
        for number in (0, 1):
            path = "%s/update.%d" % (folder.path, number)
            data = read(path)
            write(path, data[:20])  # damaged
            eq(load(folder.path).candidate, 4 if number == 0 else 5)
            write(path, data)


def test_a_write_that_fails_does_not_touch_the_record_in_force():
    with Folder() as folder:
        record = Record()
        for number in (1, 2):
            record.fetch(number, 300)
            store(folder.path, record)
        record.fetch(3, 300)
        raises(OSError, store, folder.at("none"), record)
        store(folder.path, record)
        eq(load(folder.path).candidate, 3)
        eq(unpack(read(folder.at("update.1"))).candidate, 2)


def copy(record):
    return unpack(record.pack())


def told(record):
    record.outcome = 0


def every_change():
    """Yields (the record before, None if there is none; the record after it) of each change that two releases make:
    fetched, also anew, tried, with power cuts and without, good or bad, told."""
    left = [Record()]
    seen = set()
    while left:
        record = left.pop()
        changes = []
        if record.state == TRIAL:
            changes = [lambda r: r.start(False), lambda r: r.start(True), Record.good, Record.bad]
        elif record.candidate < 2:
            changes.append(lambda r: r.fetch(r.candidate + 1, 300))
        if record.state == FETCH:
            changes += [Record.begin_trial, lambda r: r.fetch(r.candidate, 300)]
        if record.state == IDLE and record.outcome:
            changes.append(told)
        for change in changes:
            new = copy(record)
            change(new)
            state = (record.state, new.state, new.slot, new.left, new.outcome, new.candidate, new.n & 1)
            new.n += 1
            if new.starts <= STARTS + 1 and state not in seen:
                seen.add(state)
                left.append(new)
                yield record if record.n else None, new


def test_a_record_that_is_torn_in_any_way_starts_one_of_the_two_applications():
    """Each change of each state, cut behind each of its bytes; behind the cut is nothing, what was there, or what a
    flash has that was erased, or was not: what is in force is the record before or the one after, and no slot starts
    that is being filled."""
    changes = list(every_change())
    assert len(changes) > 60
    for before, after in changes:
        with Folder() as folder:
            at = "%s/update.%d" % (folder.path, after.n - 1 & 1)
            other = "%s/update.%d" % (folder.path, after.n & 1)
            old = copy(after)  # what the file has: the record before the one in force
            old.n = max(0, after.n - 2)
            old.candidate = 77
            old = old.pack() if old.n else b""
            if before:
                write(other, before.pack())
            whole = after.pack()
            allowed = {}
            for record, content in ((before, old), (after, whole)):
                if content or record is after:
                    write(at, content)
                allowed[record.pack() if record else b""] = starts(folder)
            files = {path: read(path) for path in paths(folder)}
            with Replaced(update_record, open=lambda path, mode, files=files: BytesIO(files[path])):
                for k in range(0, len(whole) + 1, CUT_STEP):
                    for tail in (b"", old[k:], b"\xff" * (len(whole) - k), b"\0" * (len(whole) - k)):
                        files[at] = whole[:k] + tail
                        files.setdefault(other, b"")
                        found = load(folder.path)
                        now = found.pack() if found.n else b""
                        assert now in allowed, (before and vars_of(before), vars_of(after), k, tail)
                        assert found.state != FETCH or allowed[now] == found.current


def paths(folder):
    return [folder.at(name) for name in folder.names()]


def starts(folder):
    """The slot that starts, "" for none; puts the records back that this start has changed."""
    kept = {path: read(path) for path in paths(folder)}
    name = launched(folder.path) or ""
    for path in paths(folder):
        if path in kept:
            write(path, kept[path])
        else:
            os.remove(path)
    return name


# --- the launcher ---


class Mounts:
    """Stands in for the module image: notes what is mounted, and mounts nothing. fails: with OSError; but: not this
    image."""

    def __init__(self, fails=False, but=None):
        self.done = []

        def mount(path, place):
            if fails and path.split("/")[-1] != but:
                raise OSError(5)
            self.done.append((path, place))

        self.mount = mount


class Platform:
    """Stands in for the module trial of a board."""

    def __init__(self, cut=False):
        self.cut, self.watched = cut, 0

    def was_cut(self, folder):
        return self.cut

    def watchdog(self):
        self.watched += 1


def launched(folder, platform=None, mounts=None):
    """The image that launch mounts and puts on the search path, or None."""
    kept = list(sys.path)
    mounts = mounts or Mounts()
    sys.modules["trial"], sys.modules["image"] = platform or Platform(), mounts
    try:
        launch.main(folder)
        if len(sys.path) == len(kept):
            eq(mounts.done, [])
            return None
        eq(mounts.done, [(sys.path[0] + ".image", sys.path[0])])
        return sys.path[0][len(folder) + 1 :]
    finally:
        sys.modules.pop("image", None)
        sys.path[:] = kept
        for name, module in (("launch", launch), ("update_record", update_record)):
            sys.modules[name] = module


def test_the_launcher_starts_what_the_record_says():
    with Folder() as folder:
        eq(launched(folder.path), None)
        record = Record()
        record.fetch(1, 300)
        store(folder.path, record)
        eq(launched(folder.path), None)
        record.begin_trial()
        store(folder.path, record)
        platform = Platform()
        eq([launched(folder.path, platform) for _ in range(5)], ["a", "a", "a", None, None])
        eq(platform.watched, 3)  # not while the old application runs
        record = load(folder.path)
        eq((record.outcome, record.failed), (BAD, 1))
        record.fetch(2, 300)
        record.begin_trial()
        store(folder.path, record)
        eq(launched(folder.path), "a")
        record = load(folder.path)
        record.good()
        store(folder.path, record)
        eq(launched(folder.path), "a")
    with Folder() as folder:  # what a cable brought as an image starts unless a release runs
        folder.write("app.image", b"")
        eq(launched(folder.path), "app")
        store(folder.path, trial())
        eq([launched(folder.path) for _ in range(4)], ["a", "a", "a", "app"])


def test_a_start_that_cannot_be_counted_is_the_old_ones():
    with Folder() as folder:
        store(folder.path, trial(2))

        def full(*_):
            raise OSError(28)

        with Replaced(update_record, store=full):
            eq(launched(folder.path), "b")
        eq(launched(folder.path), "a")


def test_a_slot_that_cannot_be_read_does_not_start():
    """The image that a cable brought, or what is in /lib, starts, and the console says so; a trial fails when its
    starts are used up."""
    told = []
    with Replaced(launch, print=lambda *words: told.append(" ".join(map(str, words)))):
        with Folder() as folder:
            store(folder.path, trial())
            eq([launched(folder.path, mounts=Mounts(fails=True)) for _ in range(4)], [None] * 4)
            eq((load(folder.path).outcome, len(told)), (BAD, 3))
            eq(told[0].split(": ")[:2], ["inflight", "not starting from %s/a.image" % folder.path])
        del told[:]
        with Folder() as folder:
            folder.write("app.image", b"")
            store(folder.path, trial())
            eq(launched(folder.path, mounts=Mounts(True, "app.image")), "app")
            eq(launched(folder.path, mounts=Mounts(True)), None)
            eq([text.split("/")[-1].split(":")[0] for text in told], ["a.image", "a.image", "app.image"])


# --- a slot ---


def image(files):
    """(index, image) of `files`, [(path, content)]."""
    index = b""
    for path, content in files:
        index += bytes([len(path)]) + path.encode() + struct.pack("<I", len(content)) + hashlib.sha256(content).digest()
    return index, index + b"".join(content for _, content in files)


FILES = [
    ("app.mpy", bytes(range(256)) * 5),
    ("empty.mpy", b""),
    ("inflight/core.mpy", b"core" * 700),
    ("inflight/a.mpy", b"a" * 100),
    ("node.mpy", b"node" * 99),
]
INDEX, IMAGE = image(FILES)


def digest(data):
    return hashlib.sha256(data).digest()


def slot_of(path, index=INDEX):
    return slot.Slot(path, len(index), digest(index))


def fetch(found, data=IMAGE, chunk=100):
    """Fetches everything from the image `data`. Returns how many bytes were asked for."""
    asked = 0
    while not found.complete:
        if not found.waiting:
            found.step()
            continue
        offset, size = found.wanted
        size = min(size, chunk)
        asked += size
        eq(found.take(offset, data[offset : offset + size]), True)
    return asked


def check_slot(path, whole=IMAGE):
    eq(read(path + ".image"), whole)


def test_chunks_that_come_twice_or_out_of_order_change_nothing():
    with Folder() as folder:
        found = slot_of(folder.path + "/a")
        found.step()
        eq(found.take(100, IMAGE[100:150]), False)
        eq(found.take(0, IMAGE[:50]), True)
        eq(found.take(0, IMAGE[:50]), False)
        eq(found.take(50, IMAGE[50:] + b"more"), False)
        fetch(found)
        found.verify()
        check_slot(folder.path + "/a")


def test_what_the_running_application_has_is_not_fetched():
    with Folder() as folder:
        os.mkdir(folder.path + "/lib")
        os.mkdir(folder.path + "/lib/inflight")
        for name, content in FILES[:3]:
            folder.write("lib/" + name, content)
        folder.write("lib/node.mpy", b"another one" * 36)
        sys.path.append(folder.path + "/lib")
        try:
            asked = fetch(slot_of(folder.path + "/a"))
        finally:
            sys.path.pop()
        eq(asked, len(INDEX) + len(FILES[3][1]) + len(FILES[4][1]))
        check_slot(folder.path + "/a")


def test_damaged_bytes_are_fetched_once_more_and_then_refused():
    wrong = bytearray(IMAGE)
    wrong[len(INDEX) + 7] ^= 1
    with Folder() as folder:
        raises(slot.Damaged, fetch, slot_of(folder.path + "/a"), bytes(wrong))
        fetch(slot_of(folder.path + "/a"))
        check_slot(folder.path + "/a")
        # Only what is damaged is fetched again, whatever byte it is; those behind it stay.
        for at in range(len(INDEX), len(IMAGE), 61):
            folder.write("a.image", IMAGE[:at] + bytes([IMAGE[at] ^ 1]) + IMAGE[at + 1 :])
            asked = fetch(slot_of(folder.path + "/a"))
            assert asked in [len(content) for _, content in FILES], (at, asked)
            check_slot(folder.path + "/a")
        folder.write("a.image", IMAGE[:-1] + b"x")
        raises(slot.Damaged, slot_of(folder.path + "/a").verify)
    with Folder() as folder:
        raises(slot.Damaged, fetch, slot_of(folder.path + "/a"), b"x" + IMAGE[1:])


def test_nothing_of_another_release_with_the_same_number_stays():
    for n in (0, 9):  # its index is shorter, or longer
        index, whole = image([("keys", b"[]"), ("node.py", b"old")] + [("x%d" % k, b"x") for k in range(n)])
        with Folder() as folder:
            path = folder.path + "/a"
            fetch(slot_of(path, index), whole)
            folder.write("a.keys", b"[]")
            fetch(slot_of(path))
            check_slot(path)
            eq(os.listdir(folder.path), ["a.image"])
            folder.write("a.keys", b"[]")
            os.remove(path + ".image")  # the power was cut while the other release was removed
            fetch(slot_of(path))
            eq(os.listdir(folder.path), ["a.image"])


def test_room_counts_what_the_slot_has():
    with Folder() as folder:
        try:
            unit, blocks = slot.space(folder.path + "/a")
        except (OSError, AttributeError):
            raise SkipTest("has no statvfs") from None
        folder.write("a.image", bytes(3 * unit))
        more = slot.space(folder.path + "/a")[1]
        assert abs(more - blocks) < 1000  # others use the disk
        slot.erase(folder.path + "/a")
        eq(os.listdir(folder.path), [])


def test_what_a_cable_brought_makes_room_if_that_is_enough():
    """Its modules and its image; not what starts every application, and not what a person copied there."""
    with Folder() as folder:
        for name in ("/lib", "/lib/inflight"):
            os.mkdir(folder.path + name)
        started = ["lib/%s.mpy" % name for name in ("image", "launch", "starting", "trial", "update_record")]
        ours = ["lib/app.mpy", "lib/inflight/core.mpy", "app.image", "main.py"] + started
        for name in ours + ["lib/mine.py"]:
            folder.write(name, bytes(1000))
        folder.write("lib/app.mpy", b"")  # takes none
        record = folder.path + "/lib/inflight.json"
        folder.write("lib/inflight.json", b"no record")
        eq(slot.reclaim(500, 1, record), False)
        recorded = {"%s/%s" % (folder.path, name): "" for name in ours + ["lib/gone.mpy"]}
        folder.write("lib/inflight.json", json.dumps(recorded).encode())
        eq(slot.reclaim(500, 5, record), False)
        eq(len(os.listdir(folder.path + "/lib")), 9)
        eq(slot.reclaim(500, 4, record), True)
        eq(slot.reclaim(500, 1, record), False)
        eq(sorted(os.listdir(folder.path)), ["lib", "main.py"])
        kept = ["inflight", "inflight.json", "mine.py"] + [name[4:] for name in started]
        eq(sorted(os.listdir(folder.path + "/lib")), sorted(kept))


# --- what MicroPython imports from ---


# mpy-cross 1.25: `ANSWER = 42`; `from pkg.inner import WORD`; `WORD = "inner"`.
COMPILED = [
    ("alone.mpy", b"M\x06\x00\x1f\x03\x00\nalone\x00\x0f\x0cANSWER\x00@\x00\x02\x01\xaa\x16\x02Qc"),
    (
        "pkg/__init__.mpy",
        b"M\x06\x00\x1f\x04\x00\x06pkg\x00\x0f\x08WORD\x00\x12pkg.inner\x00\x81\x08\x08\x02\x01\x80\x10\x02*\x01\x1b\x03\x1c"
        b"\x02\x16\x02YQc",
    ),
    (
        "pkg/inner.mpy",
        b"M\x06\x00\x1f\x04\x00\x12pkg.inner\x00\x0f\ninner\x00\x08WORD\x00H\x00\x02\x01\x10\x02\x16\x03Qc",
    ),
]


def unmount(place):
    import vfs

    vfs.umount(place)


def mounted(folder, data):
    """Mounts the image `data`. Returns the folder to import from."""
    try:
        import vfs

        vfs.mount
    except (ImportError, AttributeError):
        raise SkipTest("mounts no file systems") from None
    from image import mount

    folder.write("a.image", data)
    mount(folder.path + "/a.image", folder.path + "/a")
    return folder.path + "/a"


def test_modules_are_imported_from_an_image():
    with Folder() as folder:
        place = mounted(folder, image(COMPILED)[1])
        sys.path.insert(0, place)
        try:
            import alone
            import pkg

            eq((alone.ANSWER, pkg.WORD, alone.__file__), (42, "inner", place + "/alone.mpy"))
            for name in ("nothing", "pkg.nothing", "alon", "inner"):
                raises(ImportError, __import__, name)
            with open(place + "/alone.mpy", "rb") as f:
                eq(f.read(len(COMPILED[0][1])), COMPILED[0][1])
            raises(OSError, open, place + "/alone.py")
            eq(os.listdir(place), [])
            eq([os.stat(place + name)[0] for name in ("/pkg", "/alone.mpy")], [0x4000, 0x8000])
        finally:
            sys.path.pop(0)
            unmount(place)


def test_names_with_one_hash():
    wanted = hash("/alone.mpy") & 0xFFFF
    name = next("m%d" % k for k in range(1 << 21) if hash("/m%d.mpy" % k) & 0xFFFF == wanted)
    both = [(name + ".mpy", b"content"), COMPILED[0]]
    for files, known in ((COMPILED, False), (both, True), (both[::-1], True)):
        with Folder() as folder:
            place = mounted(folder, image(files)[1])
            exists = True
            try:
                os.stat("%s/%s.mpy" % (place, name))
            except OSError:
                exists = False
            eq((exists, os.stat(place + "/alone.mpy")[0]), (known, 0x8000))
            unmount(place)


def test_what_is_no_image_is_not_mounted():
    with Folder() as folder:
        mounted(folder, IMAGE)
        unmount(folder.path + "/a")
        for data in (IMAGE[:100], IMAGE[: len(INDEX)], b"", b"\0" * 50, b"\xff" * 50):
            raises(ValueError, mounted, folder, data)
        raises(OSError, __import__("image").mount, folder.path + "/none.image", folder.path + "/a")


# --- power cuts ---


def release(number, size):
    """A release: [(path, content)]."""
    return [("start.py", b"%d" % number), ("inflight/core.py", (b"%d" % number) * size), ("x.py", b"x" * size)]


class Sensor:
    """A board on simulated flash, which updates itself to `number` while its power is cut."""

    def __init__(self):
        import littlefs_model

        self.model = littlefs_model
        self.board = littlefs_model.Board(60, 512, 32)
        self.root = littlefs_model.ROOT
        self.board.boot()
        self.install("/lib", release(0, 50))

    def install(self, folder, files):
        os.mkdir(self.root + folder)
        os.mkdir(self.root + folder + "/inflight")
        for name, content in files:
            self.model.write("%s/%s" % (folder, name), content)

    def update(self, number, size):
        """What the firmware does, from what it finds: once for each start."""
        index, whole = image(release(number, size))
        record = load(self.root)
        if record.outcome:
            record.outcome = 0
            store(self.root, record)
        if record.state == TRIAL or number in (record.release, record.failed):
            return
        place = self.root + "/" + record.other
        if record.state != FETCH or record.candidate != number:
            slot.erase(place)
            record.fetch(number, 300)
            store(self.root, record)
        found = slot.Slot(place, len(index), digest(index))
        fetch(found, whole)
        found.verify()
        record.begin_trial()
        store(self.root, record)

    def start(self, cut):
        """Starts. Returns the number of the release that starts, which must be whole."""
        name = launched(self.root, Platform(cut))
        if not name:
            return self.starts_from_lib()
        found = self.model.read("/%s.image" % name)
        for number in (1, 2, 3):
            if found == image(release(number, number + 50))[1]:
                return number
        raise AssertionError(found)

    def starts_from_lib(self):
        for path, content in release(0, 50):
            eq(self.model.read("/lib/" + path), content)
        return 0

    def prove(self, works):
        """The release that is tried has proved itself, or has not."""
        record = load(self.root)
        if record.state == TRIAL:
            if works:
                record.good()
            else:
                record.bad()
            store(self.root, record)


def cut_updates(works):
    """Three updates in a row, with a cut at each operation of the flash in one of them."""
    from nor import PowerCut, after, before, torn

    sensor = Sensor()
    snapshot = sensor.board.flash.snapshot()
    newest = 0
    for number in (1, 2, 3):
        k = 0
        while True:
            done = True
            for outcome in (before, torn(3, 0xA5), after):
                sensor.board.restore(snapshot)
                sensor.board.boot()
                sensor.board.cut_at(k, outcome)
                try:
                    update_and_prove(sensor, number, works, False)
                except (PowerCut, OSError):  # a file that is closed after the cut raises another one
                    assert sensor.board.flash.off
                    done = False
                    sensor.board.boot()
                    started = sensor.start(True)
                    assert started in (newest, number), started
                    update_and_prove(sensor, number, works, True)
                sensor.board.boot()
                eq(sensor.start(False), number if works else newest)
                record = load(sensor.root)
                eq((record.state, record.release), (IDLE, number if works else newest))
            if done:
                break
            k += 9 if EMULATED else 1
        newest = number if works else newest
        snapshot = sensor.board.flash.snapshot()


def update_and_prove(sensor, number, works, cut):
    sensor.update(number, number + 50)
    sensor.start(cut)
    sensor.prove(works)


def test_power_cuts_while_a_release_is_installed():
    """A good one, and a bad one."""
    cut_updates(True)
    cut_updates(False)
