"""Each message is in the tables exactly once, whatever was repeated."""

import json
import random

import pytest

DAY = 86_400_000


def test_a_message_becomes_one_row_in_each_table(fleet, telemetry):
    fleet.land(telemetry("attic", 0, 21.5))
    fleet.run()
    (raw,) = fleet.tables.raw.read().collect()
    assert (raw["device"], raw["epoch"], raw["seq"], raw["kind"], raw["first"]) == ("attic", 7, 0, "telemetry", True)
    assert json.loads(raw["payload"])[0]["v"] == 21.5
    (row,) = fleet.tables.measurements.read().collect()
    assert (row["name"], row["unit"], row["value"], row["clock"]) == ("temperature", "Cel", 21.5, "device")
    assert row["time"].timestamp() == 1_760_000_000
    (minute,) = fleet.tables.minutes.read().collect()
    assert (minute["count"], minute["min"], minute["max"]) == (1, 21.5, 21.5)


def test_repetitions_are_stored_in_raw_only(fleet, telemetry):
    fleet.land(*[telemetry("attic", n % 5, dup=n >= 5, at=1_760_000_000_000 + n) for n in range(15)])
    fleet.run()
    fleet.land(telemetry("attic", 4, dup=True), telemetry("attic", 5))
    fleet.run()
    assert fleet.tables.raw.read().count() == 17
    assert fleet.numbers() == fleet.numbers("measurements", "true") == [("attic", 7, n) for n in range(6)]


def test_a_repetition_is_detected_however_late_it_is(fleet, telemetry):
    now = 1_760_000_000_000
    fleet.land(telemetry("attic", 0, at=now), telemetry("attic", 2, at=now))
    fleet.run()
    for days in (1, 30, 400):
        fleet.land(telemetry("attic", 0, at=now + days * DAY, bt=now / 1000, dup=True))
        fleet.run()
    assert fleet.numbers("measurements", "true") == [("attic", 7, 0), ("attic", 7, 2)]


def test_late_data_counts(fleet, telemetry):
    """A backlog of a month arrives after newer messages."""
    now = 1_760_000_000_000
    fleet.land(telemetry("attic", 9, at=now))
    fleet.run()
    fleet.land(*[telemetry("attic", n, n, at=now + 1, bt=(now - (30 - n) * DAY) / 1000) for n in range(9)])
    fleet.run()
    assert fleet.numbers("measurements", "true") == [("attic", 7, n) for n in range(10)]
    assert {row["clock"] for row in fleet.tables.measurements.read().collect()} == {"device"}


def test_devices_and_epochs_have_numbers_of_their_own(fleet, telemetry):
    fleet.land(*[telemetry(device, n, epoch=epoch) for n in range(3) for epoch in (1, 2) for device in ("a", "b")])
    fleet.run()
    assert fleet.numbers() == [(device, epoch, n) for device in "ab" for epoch in (1, 2) for n in range(3)]


def test_the_highest_numbers(fleet, telemetry):
    fleet.land(
        telemetry("a", 2**32 - 1, epoch=2**32 - 1),
        telemetry("a", 2**32 - 1, epoch=2**32 - 1),
        telemetry("a", 0, epoch=0),
    )
    fleet.run()
    assert fleet.numbers() == [("a", 0, 0), ("a", 2**32 - 1, 2**32 - 1)]


@pytest.mark.long("INFLIGHT_PIPELINE")
@pytest.mark.timeout(1800)
def test_any_order_and_any_repetition(fleet, telemetry, monkeypatch):
    """With batches of one file, a merged ledger, and finally all tables merged."""
    monkeypatch.setattr("inflight_tools.fleet.spark.batch._MERGED", 3)
    dice = random.Random(4)
    sent = [(device, n) for device in ("a", "b", "c") for n in range(200)]
    lost = {("b", 50), ("b", 51), ("c", 199)}
    deliveries = [one for one in sent + dice.sample(sent, 300) if one not in lost]
    deliveries.sort(key=lambda one: one[1] + dice.uniform(0, 60))
    size = 225
    for at in range(0, len(deliveries), size):
        fleet.land(*[telemetry(device, n, at=1_760_000_000_000 + at) for device, n in deliveries[at : at + size]])
    fleet.run(files=1)
    assert fleet.files("raw") >= -(-len(deliveries) // size) > 3 > fleet.files("ledger")
    assert fleet.tables.merge() >= 4
    assert fleet.files("raw") == 1
    expected = sorted({(device, 7, n) for device, n in deliveries})
    assert fleet.numbers() == fleet.numbers("measurements", "true") == expected
    assert fleet.tables.raw.read().count() == len(deliveries)
    found = {row["device"]: [tuple(r) for r in row["ranges"]] for row in fleet.tables.ledger.read().collect()}
    assert found == {"a": [(0, 199)], "b": [(0, 49), (52, 199)], "c": [(0, 198)]}
    facts = fleet.facts()
    assert facts["fleet"]["lost"] == 2 and facts["fleet"]["doubled"] == 0
    assert facts["fleet"]["repeated"] == len(deliveries) - len(expected)
