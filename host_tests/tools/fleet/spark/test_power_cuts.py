"""The power is cut at any instant, or the disk is full: no row is lost or doubled, and nobody has to do anything."""

import contextlib
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from host_tests.tools import command
from host_tests.tools.fleet.without_spark import delivery, telemetry
from inflight_tools.fleet.spark.landing import LandingFiles
from inflight_tools.fleet.spark.storage import sync

from .power import Disk
from .test_kills import Driver
from .with_spark import Fleet

BATCHES = 3
CUTS = int(os.environ.get("INFLIGHT_CUTS", "200"))  # of a real file system
FULL = 20  # so often it has no space
missing = Path.unlink


def land(fleet, n):
    """A landing file with number n, a repetition of the one before, and a message without a number."""
    again = [telemetry("attic", n - 1, dup=True)] if n else []
    fleet.land(telemetry("attic", n), *again, delivery("attic/telemetry", [{"n": f"t{n}", "v": 1}]))


def expect_all(fleet, many=BATCHES):
    """All that land() has written is in the tables, once."""
    wanted = [("attic", 7, n) for n in range(many)]
    found = fleet.numbers(), fleet.numbers("measurements", "seq IS NOT NULL")
    assert found == (wanted, wanted), "\n".join(sorted(map(str, fleet.root.parent.rglob("*"))))
    assert fleet.count("raw") == 3 * many - 1
    assert fleet.count("dead_letters") == many
    assert fleet.count("minutes WHERE name = 'temperature'", "sum(count)") == many
    facts = fleet.facts()
    assert facts["fleet"]["repeated"] == many - 1 and facts["differences"] == []


@pytest.fixture(scope="module")
def whole(common_fleet):
    """A fleet after three batches, and what it has of them."""
    for n in range(BATCHES):
        land(common_fleet, n)
    common_fleet.run(files=1)
    shutil.copytree(common_fleet.root.parent, common_fleet.root.parent.with_suffix(".whole"))
    return common_fleet


@pytest.fixture
def damaged(whole):
    """The same. It stays in its folder: Spark notes whole paths."""
    put_back(whole, whole.root.parent.with_suffix(".whole"))
    return whole


def put_back(fleet, image):
    shutil.rmtree(fleet.root.parent)
    shutil.copytree(image, fleet.root.parent)


def last_commit(root, table):
    return max((root / table / "_delta_log").glob("*.json"))


def part(root, table):
    return min((root / table / "parts").glob(f"{BATCHES - 1}-*/*.parquet"))


def empty(file):
    file.write_bytes(b"")


def zeros(file):
    file.write_bytes(bytes(file.stat().st_size))


def cut(file):
    file.write_bytes(file.read_bytes()[:-20])


def number(kind, n=BATCHES - 1):
    return lambda root: root / "_checkpoint" / kind / str(n)


def of(find, *names):
    return lambda root: find(root, *names)


TORN = {
    "an empty commit of raw": [(of(last_commit, "raw"), empty)],
    "a file of measurements is empty": [(of(part, "measurements"), empty)],
    "two commits of each table, and all of the checkpoint": [
        *[(of(last_commit, name), missing) for name in 2 * "raw dead_letters measurements minutes ledger".split()],
        (lambda root: root / "_checkpoint/commits", shutil.rmtree),
    ],
    "checksums without their files": [(number(kind), missing) for kind in ("commits", "offsets", "sources/0")],
    "the checksum of an offset without it": [(number("offsets"), missing), (number("commits"), missing)],
    "no list of files": [(number("sources/0"), missing), (number("offsets"), empty), (number("commits"), missing)],
}
MORE = {
    "a missing commit of raw": [(of(last_commit, "raw"), missing)],
    "zeros in a commit of raw": [(of(last_commit, "raw"), zeros)],
    "a torn commit of minutes": [(of(last_commit, "minutes"), cut)],
    "a missing commit of the ledger": [(of(last_commit, "ledger"), missing)],
    "an empty commit of the ledger": [(of(last_commit, "ledger"), empty)],
    "all last commits": [(of(last_commit, name), empty) for name in ("raw", "measurements", "minutes", "ledger")],
    "two commits of raw": [(of(last_commit, "raw"), missing), (of(last_commit, "raw"), empty)],
    "a file of raw is full of zeros": [(of(part, "raw"), zeros)],
    "a file of the ledger is cut": [(of(part, "ledger"), cut)],
    "an empty commit of the checkpoint": [(number("commits"), empty)],
    "the checksum of a commit without it": [(number("commits"), missing)],
    "an empty offset": [(number("offsets"), empty)],
    "a torn offset": [(number("offsets"), cut)],
    "a torn list of files": [(number("sources/0"), cut)],
    "an empty identity of the checkpoint": [(lambda root: root / "_checkpoint/metadata", empty)],
    "a checkpoint of a log that is not there": [
        (lambda root: root / "raw/_delta_log/_last_checkpoint", lambda file: file.write_text('{"version":1,"size":1}'))
    ],
}


def torn(fleet, damage):
    for find, spoil in damage:
        spoil(find(fleet.root))
    fleet.run()
    expect_all(fleet)


def test_an_empty_commit_of_raw_is_told(damaged):
    empty(last_commit(damaged.root, "raw"))
    folder = damaged.root.parent
    assert damaged.facts()["differences"] == [{"table": "raw", "told": 8, "found": 5}]
    assert command.fleet(folder, "report")[0] == 0
    assert "The tables are damaged: the table raw has 5 of the 8 rows" in (folder / "report.html").read_text()
    status, said, _ = command.fleet(folder, "where", "attic", 2)
    assert status == 3 and "the next start of `inflight fleet tables` repairs the tables" in said


@pytest.mark.parametrize("words", [("report",), ("where", "attic", 2)])
def test_a_commit_that_cannot_be_read_is_told(damaged, words):
    zeros(last_commit(damaged.root, "raw"))
    status, _, said = command.fleet(damaged.root.parent, *words)
    assert status == 1 and "raw is damaged" in said and "`inflight fleet tables` repairs the tables" in said


@pytest.mark.parametrize("what", TORN)
def test_what_a_power_cut_has_torn_is_repaired(damaged, what):
    torn(damaged, TORN[what])


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", MORE)
def test_anything_that_a_power_cut_has_torn_is_repaired(damaged, what):
    torn(damaged, MORE[what])


def cut_at_random(fleet, monkeypatch, dice, tmp_path, images, chance):
    """Cuts the power at so many random instants of a run, and after it. Each time a start continues."""
    land(fleet, 0)
    fleet.run()
    for n in range(1, BATCHES):
        land(fleet, n)
    made = []
    with monkeypatch.context() as patched:
        disk = Disk(fleet.root.parent, patched)

        def image():
            made.append(tmp_path / f"image{len(made)}")
            disk.image(made[-1], dice)

        def perhaps():
            if len(made) < images and dice.random() < chance:
                image()

        disk.before_each(perhaps)
        fleet.run(files=1)
        image()
    for one in made:
        put_back(fleet, one)
        fleet.run()
        expect_all(fleet)
    return len(made)


@pytest.fixture
def elsewhere(spark, tmp_path_factory):
    """A fleet in a folder of its own, so that the whole folder can be copied."""
    return Fleet(spark, tmp_path_factory.mktemp("cut"))


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.timeout(600)
def test_the_power_is_cut(elsewhere, monkeypatch, tmp_path):
    assert cut_at_random(elsewhere, monkeypatch, random.Random(3), tmp_path, 3, 0.05) > 2


@pytest.mark.long("INFLIGHT_PIPELINE")
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(8))
def test_the_power_is_cut_often(elsewhere, monkeypatch, tmp_path, seed):
    assert cut_at_random(elsewhere, monkeypatch, random.Random(seed), tmp_path, 25, 0.4) == 26


@pytest.fixture
def mounted(tmp_path):
    """mounted(image) mounts a file as a disk, at the same place each time. It writes little but for fsync()."""
    place = tmp_path / "disk"
    place.mkdir()

    def umount():
        subprocess.run(["umount", "-l", place], check=False, capture_output=True)

    def mount(image):
        umount()
        how = "loop,commit=300,noauto_da_alloc"
        done = subprocess.run(["mount", "-o", how, image, place], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no file can be mounted here: {done.stderr.strip()}")
        return place

    yield mount
    umount()


def disk_of(tmp_path, size):
    """A file with an empty file system, ext4."""
    if not shutil.which("mkfs.ext4"):
        pytest.skip("there is no mkfs.ext4")
    image = tmp_path / "image"
    with open(image, "wb") as file:
        file.truncate(size)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
    return image


def fill(file, left):
    """Makes a file that leaves so many bytes of its disk."""
    with open(file, "wb", buffering=0) as out, contextlib.suppress(OSError):
        while out.write(bytes(4096)):
            pass
    os.truncate(file, max(0, file.stat().st_size - left))


@pytest.mark.long("INFLIGHT_PIPELINE")
@pytest.mark.timeout(3600)
def test_a_full_disk_is_waited_for(mounted, spark, tmp_path):
    """It becomes full at any place of a batch."""
    dice, landed = random.Random(11), 0
    folder = mounted(disk_of(tmp_path, 64 << 20)) / "fleet"
    fleet, ballast = Fleet(spark, folder), folder.parent / "ballast"

    def unread():
        return LandingFiles(fleet.landing, fleet.root).unread()

    def told():
        return driver.file.read_text().count("no space left on")

    with Driver(folder, "--every", "0.1", "--files", "1") as driver:
        for _ in range(FULL):
            before = told()
            with driver.stopped():
                for _ in range(4):
                    land(fleet, landed)
                    landed += 1
                fill(ballast, dice.randrange(200_000))
            driver.wait(lambda before=before: told() > before or not unread())
            ballast.unlink()
            driver.wait(lambda: not unread())
        assert told() > FULL / 2
    expect_all(fleet, landed)


@pytest.mark.long("INFLIGHT_PIPELINE")
@pytest.mark.timeout(14_400)
def test_the_power_of_a_real_file_system_is_cut(mounted, spark, tmp_path):
    """ext4 on a file that is copied while `tables` writes. The copy lacks what the kernel has not written yet."""
    dice = random.Random(5)
    image = disk_of(tmp_path, 96 << 20)
    folder = mounted(image) / "fleet"
    fleet, landed, images = Fleet(spark, folder), 0, []
    while len(images) < CUTS:
        with Driver(folder, "--every", "0.1", "--files", "1") as driver:
            driver.wait(lambda: (folder / "tables/_checkpoint/metadata").exists())
            for _ in range(min(CUTS - len(images), 20)):
                for _ in range(dice.randrange(3)):
                    land(fleet, landed)
                    landed += 1
                os.sync() if not images else sync(fleet.landing)  # as collectors do
                ends = time.monotonic() + dice.uniform(0, 6)  # a random instant, not a synchronisation
                while time.monotonic() < ends:
                    assert driver.running
                    time.sleep(0.01)
                with driver.stopped():
                    images.append((tmp_path / f"cut{len(images)}", landed))
                    subprocess.run(["cp", "--sparse=always", image, images[-1][0]], check=True)
    for cut, many in images:
        mounted(cut)
        Fleet(spark, folder).run()
        expect_all(fleet, many)
        cut.unlink()
