"""The facts of the report, computed from the tables."""

import json
from types import SimpleNamespace

import pytest

from host_tests.tools.fleet.without_spark import Fleet, health, telemetry
from host_tests.tools.fleet.without_spark import delivery as message
from inflight_tools.fleet.query import facts
from inflight_tools.fleet.query.export import aggregates

NOW = 1_760_000_000_000
MINUTE = 60_000
LIVES = [(0, 1, "power-on"), (60, 5, "power-on"), (0, 1, "power-cut")]
LIVES += [(0, 1, "power-cut"), (60, 9, "power-cut"), (0, 1, "watchdog")]


def test_an_empty_fleet(fleet):
    facts = fleet.facts()
    assert facts["fleet"]["devices"] == facts["fleet"]["accepted"] == 0 and facts["since"] is None
    assert json.loads(json.dumps(facts)) == facts


@pytest.fixture(scope="module")
def result(common_fleet):
    """A fleet with devices for each test: .fleet, .facts, and .devices by name."""
    fleet = common_fleet
    fleet.land(telemetry("from-500", 500), telemetry("from-500", 501))
    fleet.land(*[health("lives", n, up, count, reset) for n, (up, count, reset) in enumerate(LIVES)])
    fleet.land(*[health("odd", 2 * n, 60 * n, 5 * n) for n in range(1, 4)])
    fleet.land(health("odd", 3, up="ever"), health("odd", 5, counters={}), health("odd", 7, counters=5))
    fleet.land(health("odd", None, up=1), *[health("odd", 8 + n, counters={"accepted": None}) for n in range(2)])
    fleet.land(*[health("asleep", n, 1, 2, "deep-sleep" if n else "power-on") for n in range(5)])
    fleet.land(health("order", 5, heap=50_000, errors={"dht22": "OSError: 5"}, firmware="0.2.0"))
    fleet.land(health("order", 4, heap=90_000))
    fleet.land(*[telemetry("slow", n, at=NOW, bt=(NOW - 10 * n) / 1000) for n in range(101)])
    fleet.land(telemetry("unset", 0, bt=0))
    fleet.land(*[telemetry("series", n, n % 10, at=NOW + n * 1000) for n in range(100)])
    fleet.run()
    facts = fleet.facts(chosen=["series", "no such device"])
    return SimpleNamespace(fleet=fleet, facts=facts, devices={one["device"]: one for one in facts["devices"]})


def test_numbers_below_the_first_one_that_arrived(result):
    device = result.devices["from-500"]
    assert (device["before"], device["accepted"], device["lost"]) == (500, 2, 0)
    assert device["flags"] == ["numbers before the first"]


def test_restarts_are_found_by_the_counters(result):
    """Even if a restart comes within a second. A wake from deep sleep is not a restart."""
    device = result.devices["lives"]
    assert device["restarts"] == 3 and device["resets"] == {"power-on": 1, "power-cut": 2, "watchdog": 1}
    assert device["resends"] == 4 * 2 and device["reconnects"] == 4  # the last message before each restart has the sums
    assert result.devices["asleep"]["restarts"] == 0
    assert device["journal"]["limit"] == 4000 and device["heap"] == 100_000


def test_health_that_cannot_be_read_is_a_dead_letter_and_no_restart(result):
    device = result.devices["odd"]
    assert (device["restarts"], device["resets"], device["dead_letters"]) == (0, {"power-on": 1}, 3)
    assert device["heap"] == 100_000 and device["lost"] == 0
    assert len(result.fleet.numbers("health", "device = 'odd'")) == 6


def test_health_is_that_of_the_message_with_the_highest_number(result):
    device = result.devices["order"]
    assert device["heap"] == 50_000 and device["errors"] == {"dht22": "OSError: 5"}


def test_how_many_devices_run_which_firmware(result):
    """Of the newest health message; None: a device that has sent none."""
    assert result.devices["order"]["firmware"] == "0.2.0"
    told = [{"firmware": None, "devices": 4}, {"firmware": "0.1.0", "devices": 3}, {"firmware": "0.2.0", "devices": 1}]
    assert result.facts["versions"] == told


def test_latency_is_from_the_reading_to_the_collector(result):
    latency = result.devices["slow"]["latency_ms"]
    assert abs(latency["p50"] - 500) < 30 and abs(latency["p95"] - 950) < 30 and abs(latency["p99"] - 990) < 30
    assert result.devices["unset"]["latency_ms"] is None


def test_measurements_of_a_chosen_device(result):
    (series,) = result.facts["measurements"]["series"]
    assert (series["name"], series["unit"], series["count"]) == ("temperature", "Cel", 100)
    assert (series["min"], series["mean"], series["max"]) == (0, 4.5, 9)
    assert abs(series["p50"] - 4.5) <= 1 and series["p95"] >= 8
    assert len(series["points"]) == 100 and series["points"][12][1:] == [2, 2, 2]


def test_the_health_of_shown_devices_over_time(result):
    trends = result.facts["trends"]
    assert trends.keys() == result.facts["measurements"].keys() and trends["series"] == []
    found = {one["name"]: one for one in trends["lives"]}
    assert set(found) == {"free heap", "journal in use", "erased sectors of the journal", "restarts"}  # no radio
    heap, restarts = found["free heap"], found["restarts"]
    assert (heap["unit"], heap["count"], heap["min"], heap["p95"]) == ("B", 6, 100_000, 100_000)
    assert (restarts["min"], restarts["max"]) == (0, 3) and restarts["points"][-1][3] == 3


NOON = NOW // 86_400_000 * 86_400_000 + 12 * 60 * MINUTE


@pytest.fixture(scope="module")
def continued(tmp_path_factory):
    """A fleet after a second batch. Message 2 of `filled` and message 72 of `daily` are in that batch."""
    fleet = Fleet(tmp_path_factory.mktemp("continued"))
    for device in ("attic", "filled"):
        fleet.land(*[telemetry(device, n, at=NOW) for n in (0, 1, 3)])
        fleet.land(*[telemetry(device, n, at=NOW + 10 * MINUTE) for n in (4, 7)])
    fleet.land(*[telemetry("daily", n, n, at=NOON + n * 20 * MINUTE) for n in range(72)])  # a day
    fleet.land(*[message("m/collector", {"sent": NOW + s * 1000}, NOW + s * 1000 + 250, by="m") for s in (0, 60)])
    fleet.run()
    fleet.land(telemetry("filled", 2, at=NOW + 11 * MINUTE))
    # Two months late.
    fleet.land(telemetry("daily", 72, 1000, at=NOON + 60 * 24 * 60 * MINUTE, bt=NOON / 1000))
    fleet.land(message("m/collector", {"sent": NOW + 90_000}, NOW + 90_500, by="m"))
    fleet.run()
    return fleet


def test_timeline_and_events(fleet):
    offline = {"state": "offline"}
    fleet.land(*[telemetry("attic", n, at=NOW + n * 1000) for n in range(5)], telemetry("attic", 4, at=NOW + 5000))
    fleet.land(message("attic/status", {"state": "online", "seq": 9, "epoch": 7}, NOW + 500))
    fleet.land(message("attic/status", offline, NOW + 6000), message("attic/status", offline, NOW + 6500))
    fleet.land(telemetry("attic", 10, at=0))  # the collector's clock was not set
    fleet.land(message("attic/status", offline, NOW + 7000, retain=True))  # a retained message is not an event
    fleet.land(health("attic", 5, at=NOW + 8000), health("attic", 6, reset="power-cut", at=NOW + 9000))
    fleet.land(*[telemetry("attic", n, at=NOW + 20_000, bt=NOW / 1000) for n in (7, 8)])
    fleet.run()
    facts = fleet.facts()
    points = facts["timeline"]["points"]
    assert facts["timeline"]["step_s"] == 1 and len(points) == 21
    totals = {name: sum(point[name] for point in points) for name in points[0] if name != "t"}
    counted = {"received": 10, "backlog": 2, "repeated": 1, "restarts": 1, "offline": 2}
    assert totals == counted | {"dead_letters": 0, "gone": 0}
    assert points[9]["restarts"] == 1 and points[20]["backlog"] == 2
    events = [(event["what"], event["detail"]) for event in reversed(facts["events"])]
    assert events == [("online", ""), ("offline", ""), ("offline", ""), ("start", "power-on"), ("start", "power-cut")]
    (device,) = facts["devices"]
    assert (device["state"], device["since"]) == ("offline", NOW / 1000 + 6)
    assert device["delivered"] == 11 and facts["since"] == NOW / 1000


def test_aggregates_by_minute_hour_and_day(continued):
    def rows(size):
        with continued.database() as database:
            found = [row for table in aggregates(database, size) for row in table.to_pylist()]
        figures = ("count", "min", "max", "mean")
        return sorted(
            (row["time"].timestamp() - NOON / 1000, *(row[name] for name in figures))
            for row in found
            if row["device"] == "daily"
        )

    assert rows("minute")[0] == (0, 2, 0, 1000, 500) and len(rows("minute")) == 72
    assert rows("hour")[:2] == [(0, 4, 0, 1000, 1003 / 4), (3600, 3, 3, 5, 4)] and len(rows("hour")) == 24
    assert rows("day") == [(-43200, 37, 0, 1000, (sum(range(36)) + 1000) / 37), (43200, 36, 36, 71, 53.5)]


def test_only_what_was_received_in_a_time_counts(fleet):
    """A missing number belongs to the time in which the next number that arrived was received."""
    told = [(0, 0), (1, 10), (3, 20), (4, 30), (7, 40), (8, 50)]  # number, s
    fleet.land(*[telemetry("attic", n, n, at=NOW + s * 1000, bt=NOW / 1000 + s - 2) for n, s in told])
    fleet.land(telemetry("attic", 3, 3, at=NOW + 35_000))
    fleet.land(telemetry("cellar", 5, at=NOW + 45_000))
    lives = [(0, 5, 9), (1, 15, 12), (2, 25, 1), (3, 45, 4)]  # number, s, accepted
    fleet.land(*[health("hall", n, at=NOW + s * 1000, up=s % 25, accepted=many) for n, s, many in lives])
    fleet.land(*[message("hall/elsewhere", "{}", at=NOW + s * 1000) for s in (5, 25, 45)])
    fleet.run()

    def within(since=None, until=None):
        now = NOW / 1000
        return fleet.facts(now=now + 9999, since=since and now + since, until=until and now + until)

    def figures(found, name):
        names = ("accepted", "delivered", "lost", "before", "repeated", "measurements", "restarts", "resends")
        device = {one["device"]: one for one in found["devices"]}.get(name)
        return device and tuple(device[figure] for figure in names)

    middle = within(20, 40)
    assert figures(middle, "attic") == (3, 2, 1, 0, 1, 2, 0, 0)
    assert figures(middle, "hall")[:2] == (1, 1) and figures(middle, "hall")[6:] == (1, 2)
    assert figures(middle, "cellar") is None
    assert middle["fleet"]["dead_letters"] == sum(one["count"] for one in middle["dead_letters"]) == 1
    assert (middle["since"], middle["until"]) == (NOW / 1000 + 20, NOW / 1000 + 35)
    assert sum(point["received"] for point in middle["timeline"]["points"]) == 3
    assert middle["fleet"]["latency_ms"] == {"p50": 2000.0, "p95": 2000.0, "p99": 2000.0}
    parts, whole = [within(None, 20), middle, within(40)], within()
    assert figures(parts[2], "cellar") == (1, 1, 0, 5, 0, 1, 0, 0)
    for name in ("accepted", "delivered", "lost", "before", "repeated", "measurements", "resends", "restarts"):
        assert sum(part["fleet"][name] for part in parts) == whole["fleet"][name]
    assert within(999)["since"] is None


def test_the_last_batch_and_how_long_a_marker_took(continued):
    found = continued.facts()
    assert found["batch"] == 1
    (marked,) = (one for one in found["collectors"] if one["by"] == "m")
    times = {"first": NOW / 1000, "marked": NOW / 1000 + 90, "queue_s": 0.5}
    assert marked == times | {"by": "m", "seen": NOW / 1000 + 90.5, "doubt": None}


def test_a_restart_whose_delivery_was_deleted_by_age(fleet):
    """`compact --keep` deletes from `raw`, not from `health`."""
    day = 86_400_000
    restarts = [health("attic", n, accepted=1, at=NOW + n * day) for n in range(4)]
    fleet.land(*restarts)
    fleet.run()
    assert fleet.facts()["fleet"]["restarts"] == 3
    fleet.forget(NOW / 1000 + 2 * 86_400)
    found = fleet.facts()
    assert found["fleet"]["restarts"] == 3 and found["since"] == NOW / 1000 + 2 * 86_400
    assert sum(point["restarts"] for point in found["timeline"]["points"]) == 2


def test_a_chosen_device_is_shown_though_the_fleet_is_large(result, monkeypatch):
    monkeypatch.setattr(facts, "MOST_DEVICES", 1)
    found = result.fleet.facts(chosen=["series", "no such device"], worst=0)
    assert len(found["devices"]) == 1 and found["devices"][0]["device"] != "series"
    assert list(found["measurements"]) == ["series"]


# Of a name: the journals with it, each (first, last) time of receipt in s; whether two boards have it.
SHARED = {
    "one after the other": ([(0, 100), (100, 200)], False),
    "what was on the way, for less than a minute": ([(0, 160), (100, 200)], False),
    "both at the same time": ([(0, 161), (100, 200)], True),
    "begun at the same time": ([(0, 0), (0, 61)], True),
    "the first of three in use all the time": ([(0, 900), (10, 20), (500, 600)], True),
    "the later of three": ([(0, 10), (10, 900), (500, 600)], True),
}


def test_two_boards_with_one_name(fleet):
    for name, (journals, _) in SHARED.items():
        times = [(epoch, n, s) for epoch, both in enumerate(journals) for n, s in enumerate(both)]
        fleet.land(*[telemetry(name, n, epoch=epoch, at=NOW + s * 1000) for epoch, n, s in times])
    fleet.run()
    flags = {one["device"]: one["flags"] for one in fleet.facts()["devices"]}
    for name, (_, shared) in SHARED.items():
        assert ("two boards, one id" in flags[name]) == shared, name
    with fleet.database() as database:  # no device is compared with each other one
        plan = str(database.rows("EXPLAIN FROM devices"))
    assert "Hash Join" in plan and "Nested Loop" not in plan
