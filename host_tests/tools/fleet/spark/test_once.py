"""Each message is in the tables exactly once, whatever was repeated."""

import json
import random

import pytest

NOW = 1_760_000_000_000
DAY = 86_400_000


@pytest.fixture(scope="module")
def landed(common_fleet, telemetry):
    """A fleet with devices for each test, after three batches."""
    fleet = common_fleet
    fleet.land(telemetry("single", 0, 21.5))
    fleet.land(*[telemetry("again", n % 5, dup=n >= 5, at=NOW + n) for n in range(15)])
    fleet.land(telemetry("late", 9))
    fleet.land(*[telemetry(device, n, epoch=epoch) for n in range(3) for epoch in (1, 2) for device in ("a", "b")])
    fleet.land(*[telemetry("highest", n, epoch=n) for n in (2**32 - 1, 2**32 - 1, 0)])
    for days in (0, 1, 400):
        fleet.land(*[telemetry("old", n, at=NOW + days * DAY, bt=NOW / 1000, dup=days > 0) for n in (0, 2)])
        if days == 1:
            fleet.land(telemetry("again", 4, dup=True), telemetry("again", 5))
            # A backlog of a month arrives after newer messages.
            fleet.land(*[telemetry("late", n, n, at=NOW + 1, bt=(NOW - (30 - n) * DAY) / 1000) for n in range(9)])
        fleet.run()
    return fleet


def numbers(fleet, device):
    """(epoch, seq) in the table of measurements, sorted; `raw` says the same of first deliveries."""
    found = fleet.numbers("measurements", f"device = '{device}'")
    assert found == fleet.numbers("raw", f"first AND device = '{device}'")
    return [number[1:] for number in found]


def test_a_message_becomes_one_row_in_each_table(landed):
    (raw,) = landed.tables.raw.read().where("device = 'single'").collect()
    assert (raw["device"], raw["epoch"], raw["seq"], raw["kind"], raw["first"]) == ("single", 7, 0, "telemetry", True)
    assert json.loads(raw["payload"])[0]["v"] == 21.5
    (row,) = landed.tables.measurements.read().where("device = 'single'").collect()
    assert (row["name"], row["unit"], row["value"], row["clock"]) == ("temperature", "Cel", 21.5, "device")
    assert row["time"].timestamp() == 1_760_000_000
    (minute,) = landed.tables.minutes.read().where("device = 'single'").collect()
    assert (minute["count"], minute["min"], minute["max"]) == (1, 21.5, 21.5)


def test_repetitions_are_stored_in_raw_only(landed):
    assert landed.tables.raw.read().where("device = 'again'").count() == 17
    assert numbers(landed, "again") == [(7, n) for n in range(6)]


def test_a_repetition_is_detected_however_late_it_is(landed):
    assert landed.tables.raw.read().where("device = 'old'").count() == 6
    assert numbers(landed, "old") == [(7, 0), (7, 2)]


def test_late_data_counts(landed):
    assert numbers(landed, "late") == [(7, n) for n in range(10)]
    assert {row["clock"] for row in landed.tables.measurements.read().where("device = 'late'").collect()} == {"device"}


def test_devices_and_epochs_have_numbers_of_their_own(landed):
    for device in ("a", "b"):
        assert numbers(landed, device) == [(epoch, n) for epoch in (1, 2) for n in range(3)]


def test_the_highest_numbers(landed):
    assert numbers(landed, "highest") == [(0, 0), (2**32 - 1, 2**32 - 1)]


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
        fleet.land(*[telemetry(device, n, at=NOW + at) for device, n in deliveries[at : at + size]])
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
