"""Landing files: all are read, whatever their dates are; what nobody reads is told."""

import os
import time

import pytest

from inflight_tools.fleet.spark.landing import Landing, Watch, summary

DAY = 86_400


@pytest.fixture
def ahead(fleet, telemetry):
    """Returns a function that lands message 0 in a file dated 8 days ahead of that with message 1, and runs the
    query on each."""

    def run():
        for n, days in enumerate((8, 0)):
            fleet.land(telemetry("attic", n))
            dated = time.time() + days * DAY
            os.utime(fleet.landing / f"{n + 1:06}.ndjson", (dated, dated))
            fleet.run()
        return fleet

    return run


def test_a_file_dated_ahead_hides_no_others(ahead, spark):
    fleet = ahead()
    assert fleet.numbers() == [("attic", 7, 0), ("attic", 7, 1)]
    assert Landing(spark, fleet.landing, fleet.root).unread() == {}


def test_a_file_that_is_never_read_is_told(ahead, spark, monkeypatch):
    monkeypatch.setattr("inflight_tools.fleet.spark.stream._ANY_AGE", "7d")
    fleet = ahead()
    landing = Landing(spark, fleet.landing, fleet.root)
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
    for offsets in (fleet.root / "_checkpoint/offsets").glob("[0-9]*"):
        offsets.write_text("damaged")
    assert set(landing.unread()) >= set(unread)  # nothing says which files were read
