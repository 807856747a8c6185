"""Landing files: all are read, whatever their dates are; what nobody reads is told."""

import os
import time

from inflight_tools.fleet.spark.landing import Landing, Watch, summary

DAY = 86_400


def test_a_file_dated_ahead_hides_others_only_until_any_age_is_read(fleet, telemetry, spark, monkeypatch):
    """Spark's own limit is 7 days. What nobody reads is told."""
    now = time.time()
    with monkeypatch.context() as limited:
        limited.setattr("inflight_tools.fleet.spark.stream._ANY_AGE", "7d")
        for n, days in enumerate((8, 0)):
            fleet.land(telemetry("attic", n))
            os.utime(fleet.landing / f"{n + 1:06}.ndjson", (now + days * DAY, now + days * DAY))
            fleet.run()
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
    fleet.run()
    assert fleet.numbers() == [("attic", 7, 0), ("attic", 7, 1)]
    assert landing.unread() == {}
    for offsets in (fleet.root / "_checkpoint/offsets").glob("[0-9]*"):
        offsets.write_text("damaged")
    assert set(landing.unread()) >= set(unread)  # nothing says which files were read
