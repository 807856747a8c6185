"""Landing files: all are read, whatever their dates are; what nobody reads is told."""

import json
import os
import time
from functools import partial

import pytest

from host_tests.tools.fleet.without_spark import telemetry
from inflight_tools.fleet.spark import repair
from inflight_tools.fleet.spark.landing import LandingFiles, Watch, summary
from inflight_tools.fleet.spark.storage import Storage

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
    assert watch.stuck() == 1 and watch.stuck() == 2
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
    lines = [json.dumps({"path": f"file:/landing/{n}.ndjson", "batchId": batch}) for n, batch in enumerate(batches)]
    (folder / "3.compact").write_text("\n".join(["v1", *lines]))
    name, text = repair.Checkpoint(tmp_path).shorter_list(lambda: {"1.ndjson", "new.ndjson"})
    assert str(name) == "sources/0/3.compact"
    assert text.splitlines() == ["v1", lines[1], *lines[3:]]
