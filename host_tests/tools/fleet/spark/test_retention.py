"""Old measurements are replaced by what `minutes` has of them: nothing that the report proves changes."""

import datetime

import pytest

from host_tests.tools.fleet import without_spark
from host_tests.tools.fleet.without_spark import telemetry
from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.query.export import write

DAY = 86_400_000
NOW = 1_760_000_040_000  # ms: the begin of a minute
# What was received before goes.
OLD = datetime.datetime.fromtimestamp((NOW + DAY) / 1000, datetime.timezone.utc)


def land(fleet, first, at, values=(1.0, 2.0, 6.0)):
    """One batch of a minute: numbers from `first` on, the last one twice."""
    lines = [telemetry("attic", first + n, value, at=at + 15_000 * n) for n, value in enumerate(values)]
    fleet.land(*lines, lines[-1])
    fleet.run()


@pytest.fixture(scope="module")
def begun(common_fleet):
    """Two batches: numbers 0 to 2 of day 0, 4 to 6 of day 2. Number 3 is lost."""
    land(common_fleet, 0, NOW)
    land(common_fleet, 4, NOW + 2 * DAY)
    return common_fleet


@pytest.fixture
def old_and_new(fleet, begun):
    """A copy of it."""
    return fleet.begin_as(begun)


def exported(fleet, folder):
    with fleet.database(until=NOW / 1000 + 10 * 86_400) as database:
        write(database, str(folder))
    return sorted(without_spark.exported(folder / "aggregates"), key=lambda row: (row["size"], row["time"]))


def proved(fleet):
    facts = fleet.facts(now=NOW / 1000 + 10 * 86_400)
    return {name: facts[name] for name in ("fleet", "groups", "timeline", "events", "differences", "devices")}


def test_all_but_single_readings_stays(old_and_new, tmp_path):
    """A report of a time has the readings, or the mean of the minute. Batches go on."""
    fleet = old_and_new
    before = proved(fleet), exported(fleet, tmp_path / "before"), fleet.numbers()
    assert before[0]["fleet"]["measurements"] == 6 and before[0]["fleet"]["lost"] == 1
    assert fleet.tables.merge(None, OLD) > 0
    assert fleet.numbers("measurements", "true") == [("attic", 7, n) for n in (4, 5, 6)]
    assert (proved(fleet), exported(fleet, tmp_path / "after"), fleet.numbers()) == before
    for since, expected in ((NOW, [[3.0, 1.0, 6.0]]), (NOW + 2 * DAY, [[1.0] * 3, [2.0] * 3, [6.0] * 3])):
        until = since / 1000 + 60
        (found,) = fleet.facts(chosen=["attic"], since=since / 1000, until=until)["measurements"]["attic"]
        assert [point[1:] for point in found["points"]] == expected
        assert (found["count"], found["mean"], found["min"], found["max"]) == (3, 3.0, 1.0, 6.0)
    assert fleet.tables.merge(None, OLD) == 0


@pytest.mark.long("INFLIGHT_TOOLS")
def test_minutes_go_when_they_are_older_still_and_batches_go_on(old_and_new, tmp_path):
    """Also with readings that are late, and older than what is kept: they stay until the next time."""
    fleet = old_and_new
    assert fleet.tables.merge(None, OLD, OLD) > 0
    assert [row["count"] for row in exported(fleet, tmp_path / "out")] == [3, 3, 3]  # of a minute, an hour, a day
    assert fleet.tables.merge(None, OLD, OLD) == 0
    facts = proved(fleet)
    assert facts["fleet"]["measurements"] == 6 and facts["fleet"]["lost"] == 1 and not facts["differences"]
    fleet.tables.vacuum(0)
    fleet.land(telemetry("attic", 3, 5.0, at=NOW + 3 * DAY, bt=NOW / 1000))
    land(fleet, 7, NOW + 3 * DAY)
    assert fleet.numbers("measurements", "true") == [("attic", 7, n) for n in range(3, 10)]
    facts = proved(fleet)
    assert facts["fleet"]["lost"] == 0 and facts["fleet"]["delivered"] == 10 and not facts["differences"]


@pytest.mark.long("INFLIGHT_PIPELINE")
def test_killed_between_any_two_commits(old_and_new, kill):
    fleet, kills = old_and_new, 0
    before = proved(fleet)
    while kill(min(kills, 1), fleet.tables.merge, None, OLD):  # first before its first commit, then before its second
        kills += 1
        assert proved(fleet) == before
        assert fleet.count("minutes", "sum(count)") == 6
    assert kills >= 3 and fleet.tables.merge(None, OLD) == 0
    assert fleet.numbers("measurements", "true") == [("attic", 7, n) for n in (4, 5, 6)]
    assert proved(fleet) == before


@pytest.mark.long("INFLIGHT_PIPELINE")
def test_a_batch_meanwhile(old_and_new, before_commits):
    """Before each of its commits a batch ends: its rows stay, those that it deletes go."""
    fleet = old_and_new
    first = iter(range(7, 100, 3))

    def batch(number):
        land(fleet, next(first), NOW + (3 + number) * DAY)

    many = before_commits(batch, fleet.tables.merge, None, OLD)
    assert many >= 3
    assert fleet.numbers("measurements", "true") == [("attic", 7, n) for n in range(4, 7 + 3 * many)]
    assert fleet.count("minutes", "sum(count)") == 6 + 3 * many
    facts = proved(fleet)
    assert facts["fleet"]["lost"] == 1 and facts["fleet"]["doubled"] == 0 and not facts["differences"]


def test_nothing_goes_while_minutes_lack_rows(old_and_new):
    fleet = old_and_new
    fleet.tables.minutes.remove(0)
    with pytest.raises(WrongTables, match="minutes has 1 of the 2 rows .* repairs the tables"):
        fleet.tables.merge(None, OLD)
    assert len(fleet.numbers("measurements", "true")) == 6
