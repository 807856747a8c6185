"""Landing files: all are read, whatever their dates are; what nobody reads is told."""

import gzip
import json
import os
import re
import time
from functools import partial

import pytest
from pyspark.errors import StreamingQueryException

from host_tests.thorough import more
from host_tests.tools.fleet.spark.with_spark import Fleet
from host_tests.tools.fleet.without_spark import telemetry
from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.spark import repair
from inflight_tools.fleet.spark.guard import set_aside
from inflight_tools.fleet.spark.landing import LandingFiles, Watch, summary
from inflight_tools.fleet.spark.storage import Storage
from inflight_tools.fleet.where.landed import waiting

DAY = 86_400


def test_a_file_dated_ahead_hides_others_only_until_any_age_is_read(fleet, spark, monkeypatch):
    """Spark's own limit is 7 days. What nobody reads is told."""
    now = time.time()
    with monkeypatch.context() as limited:
        limited.setattr("inflight_tools.fleet.spark.stream._ANY_AGE", "7d")
        for n, days in enumerate((8, 0)):
            fleet.land(telemetry("attic", n))
            os.utime(fleet.landing / f"{n + 1:06}.ndjson", (now + days * DAY, now + days * DAY))
            fleet.run()
    landing = LandingFiles(fleet.landing, fleet.root, partial(Storage, spark))
    watch = Watch(landing)
    assert fleet.numbers() == [("attic", 7, 0)]
    (fleet.landing / "new.ndjson").write_bytes(b"line\n")
    assert watch.stuck() == ["000002.ndjson"] and watch.stuck() == ["000002.ndjson", "new.ndjson"]
    unread = landing.unread()
    assert sorted(unread) == ["000002.ndjson", "new.ndjson"] and unread["new.ndjson"][0] == 5
    now = time.time()
    assert summary(unread, now)["stale"] == 0
    assert summary(unread, now + DAY)["stale"] == summary(unread, now - DAY)["stale"] == 2
    assert fleet.facts(unread=unread, now=now + DAY)["unread"] == summary(unread, now + DAY)
    fleet.run()
    assert fleet.numbers() == [("attic", 7, 0), ("attic", 7, 1)]
    assert landing.unread() == {}
    for offsets in (fleet.root / "_checkpoint/offsets").glob("[0-9]*"):
        offsets.write_text("damaged")
    assert set(landing.unread()) >= set(unread)  # nothing says which files were read


@pytest.fixture
def short(monkeypatch):
    """Spark's list of files is shortened to three names."""
    monkeypatch.setattr(repair, "_LISTED", 3)
    monkeypatch.setattr(repair, "_LIST_BYTES", 0)


def listed(checkpoint):
    """{number of a merged list: the names in it}"""
    lists = (checkpoint / "sources/0").glob("[0-9]*.compact")
    texts = {int(file.stem): file.read_text().splitlines()[1:] for file in lists}
    return {number: [json.loads(line)["path"].rpartition("/")[2] for line in text] for number, text in texts.items()}


def test_sparks_list_of_files_does_not_grow(short, fleet, spark):
    """Each file is read once, also by the next starts."""
    every = "spark.sql.streaming.fileSource.log.compactInterval"
    spark.conf.set(every, "2")
    try:
        for n in range(5):
            fleet.land(telemetry("attic", n))
            if n in (0, 3):
                fleet.run(files=1)
        lists = listed(fleet.root / "_checkpoint")
        assert lists[max(lists)] == ["000002.ndjson", "000003.ndjson", "000004.ndjson"]
        fleet.run(files=1)
    finally:
        spark.conf.unset(every)
    assert fleet.numbers() == [("attic", 7, n) for n in range(5)]
    assert fleet.facts()["fleet"]["repeated"] == 0
    assert LandingFiles(fleet.landing, fleet.root).unread() == {}


def test_names_that_are_needed_stay_in_the_list(short, tmp_path):
    """Those of files that are still there, and all of a batch."""
    folder = tmp_path / "sources/0"
    folder.mkdir(parents=True)
    batches = [0, 0, 1, 2, 2, 2, 3, 3]
    lines = [json.dumps({"path": f"file:/landing/a%20{n}.ndjson", "batchId": batch}) for n, batch in enumerate(batches)]
    (folder / "3.compact").write_text("\n".join(["v1", *lines]))
    name, text = repair.Checkpoint(tmp_path).shorter_list(lambda: {"a 1.ndjson", "new.ndjson"})
    assert str(name) == "sources/0/3.compact"
    assert text.splitlines() == ["v1", lines[1], *lines[3:]]


@pytest.mark.parametrize("text", ["", "v1\n{", "v1\n{}\n-", 'v1\n{}\n{"logOffset":null}'])
def test_an_older_offset_that_is_torn_is_told(tmp_path, text):
    """The last one is repeated."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets/6").write_text(text)
    with pytest.raises(WrongTables, match="offsets/6 is damaged: restore it, or make new ones"):
        repair.Checkpoint(tmp_path).listed_by(6)


@pytest.fixture
def fail(before_commits):
    """fail(commits, fleet) runs a batch that fails behind so many commits."""

    def run(commits, fleet):
        def full(number):
            if number == commits:
                raise OSError("the disk burns")

        with pytest.raises(StreamingQueryException, match="the disk burns"):
            before_commits(full, fleet.run)

    return run


@pytest.mark.parametrize("why", ["Checksum error", "Permission denied"])
def test_a_file_that_cannot_be_read_is_set_aside(fleet, spark, fail, capsys, why):
    """A batch that has begun with it is repeated without it. What is read of it is put back under another name."""
    if why == "Permission denied" and not os.geteuid():
        pytest.skip("root may read any file")
    fleet.land(telemetry("attic", 0))
    fleet.run()
    fleet.land(telemetry("attic", 1))
    fleet.land(telemetry("attic", 2))
    fail(2, fleet)  # some tables have the batch
    file = fleet.landing / "000003.ndjson"
    if why == "Permission denied":
        file.chmod(0)
    else:
        file.with_name(f".{file.name}.crc").write_bytes(b"crc\0\0\0\2\0" + bytes(4))  # Hadoop's, of another file
    watch = Watch(LandingFiles(fleet.landing, fleet.root, partial(Storage, spark)))
    aside = partial(set_aside, spark, fleet.landing, fleet.root, watch)
    with pytest.raises(StreamingQueryException, match="000003.ndjson") as failed:
        fleet.run()
    assert aside(str(failed.value)) and not aside(str(failed.value))
    fleet.run()
    assert re.search(rf"ALARM: 000003.ndjson cannot be read \(.*{why}", capsys.readouterr().err)
    assert sorted(watch.unread()) == ["unreadable/000003.ndjson"] and watch.stuck() == []
    assert fleet.numbers() == fleet.numbers("measurements", "true") == [("attic", 7, 0), ("attic", 7, 1)]
    (fleet.landing / "unreadable/000003.ndjson").chmod(0o644)
    assert waiting(fleet.landing, "inflight", ["attic"], 7, 2)
    (fleet.landing / "unreadable/000003.ndjson").rename(fleet.landing / "again.ndjson")
    fleet.run()
    assert fleet.numbers() == [("attic", 7, n) for n in range(3)] and fleet.facts()["fleet"]["doubled"] == 0


@pytest.mark.parametrize("archived", [True, False])
def test_a_begun_batch_is_not_repeated_without_its_files(fleet, fail, archived):
    """Spark takes a file that is gone for an empty one."""
    fleet.land(telemetry("attic", 0))
    fleet.run()
    fleet.land(telemetry("attic", 1))
    fail(0, fleet)
    place = fleet.root / "landed" if archived else fleet.root.parent
    place.mkdir(exist_ok=True)
    (fleet.landing / "000002.ndjson").rename(place / "000002.ndjson")
    if not archived:
        with pytest.raises(WrongTables, match="1 are not in .*landed, for example 000002.ndjson"):
            fleet.run()
        (place / "000002.ndjson").rename(fleet.landing / "000002.ndjson")
    fleet.run()
    assert fleet.numbers() == [("attic", 7, 0), ("attic", 7, 1)]


def test_what_is_no_line_is_a_dead_letter(fleet):
    """The others go on beside an empty file, and one that another program has compressed and not finished."""
    fleet.land(telemetry("attic", 0))
    fleet.land()
    (fleet.landing / "ü %&#1.ndjson").write_bytes(gzip.compress(telemetry("attic", 1).encode())[:-9])
    fleet.run()
    assert fleet.numbers() == [("attic", 7, 0)] and LandingFiles(fleet.landing, fleet.root).unread() == {}
    assert fleet.facts()["fleet"]["dead_letters"] == fleet.count("dead_letters") > 0


@pytest.mark.parametrize("commits", [0, None, *more(2)])
def test_a_folder_that_is_moved_is_read_once(commits, fleet, spark, fail, tmp_path):
    """With a batch that failed behind so many commits, and with files that Spark has not moved away yet."""
    fleet.land(telemetry("attic", 0))
    fleet.land(telemetry("attic", 1))
    fleet.run() if commits is None else fail(commits, fleet)
    moved = Fleet(spark, tmp_path / "other")
    moved.landing.rmdir()
    for name in ("landing", "tables"):
        (tmp_path / name).rename(tmp_path / "other" / name)
    moved.written = 2
    moved.land(telemetry("attic", 2))
    moved.run()
    assert moved.numbers() == moved.numbers("measurements", "true") == [("attic", 7, n) for n in range(3)]
    assert moved.count("raw") == moved.facts()["fleet"]["delivered"] == 3
