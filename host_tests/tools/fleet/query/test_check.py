"""`inflight fleet check`, and the sums that it and the metrics of a fleet have."""

import json
import time

import pytest

from host_tests.tools.fleet import tables as of_tables
from host_tests.tools.fleet.report.made_facts import empty
from host_tests.tools.fleet.tables import AT
from host_tests.tools.fleet.without_spark import delivery, telemetry
from inflight_tools.fleet.monitoring.alarms import Check
from inflight_tools.fleet.monitoring.command import FIGURES
from inflight_tools.fleet.query.facts import OTHERS, gather, totals

NONE = (
    "0 damaged tables, 0 devices with impossible numbers, 0 lost messages, 0 messages given up, "
    "0 messages without a place, 0 rows stored twice, 0 silent, 0 devices whose end is unknown, 0 unknown numbers, "
    "0 on the way, 0 in a journal"
)
PIPELINE = "0 journals nearly full, 0 collectors behind, 0 stale landing files, 0 repeated messages"


@pytest.fixture
def check(run, monkeypatch):
    """check(...) returns (exit status, standard output) 70 s after AT."""
    monkeypatch.setattr(time, "time", lambda: float(AT + 70))

    def ask(*words):
        status, output, error = run("check", *words)
        return status, output or error

    return ask


@pytest.fixture
def troubled(tables):
    return of_tables.troubled(tables)


def test_a_fleet_without_trouble_is_ok(check, tables):
    tables.add("attic", 0)
    tables.marker(60, 61)
    tables.write()
    assert check() == (0, f"ok: 1 device, {NONE}, 0 dead letters, {PIPELINE}\n")


def test_one_line_says_what_is_wrong(check, troubled):
    status, line = check()
    assert status == 1 and line == (
        "ALARM: 1 lost message, 2 dead letters, 1 journal nearly full; of 2 devices, "
        f"{NONE.replace('0 lost messages, ', '').replace('0 devices whose', '1 device whose')}, "
        f"{PIPELINE.replace('0 journals nearly full, ', '')}\n"
    )


def test_thresholds_are_options(check, troubled):
    """What was lost before a time is no alarm after it."""
    allowed = {"lost": 1, "dead_letters": 2, "nearly_full": 1, "silent": 0, "behind": 0, "stale": 0}
    facts = totals(troubled.root, "inflight", now=AT + 70.0)
    assert Check(facts, allowed).alarms == []
    for name in ("lost", "dead_letters", "nearly_full"):
        assert Check(facts, allowed | {name: allowed[name] - 1}).alarms == [name]
    assert check("--max-lost", "1", "--max-dead-letters", "2", "--max-nearly-full", "1")[0] == 0
    assert check("--since", "2025-10-09T08:54:10", "--max-nearly-full", "1")[0] == 0  # 50 s after AT


@pytest.mark.parametrize("name", FIGURES)
def test_one_figure_alone_can_be_asked_for(name, check, monkeypatch):
    """What should never be is an alarm whatever is asked for."""
    figure = FIGURES[name]
    fleet = dict.fromkeys((*empty()["fleet"], "damaged"), 1) | {"silent": 0}
    for n, alarms in ((0, []), (2, [figure])):
        found = empty() | {"fleet": fleet | dict.fromkeys(("impossible", "doubled"), 0) | {figure: n}}
        found["differences"] = ["damage"] * (n * (figure == "damaged"))
        monkeypatch.setattr("inflight_tools.fleet.query.facts.totals", lambda *_, found=found, **__: found)
        asked = "silent" if figure in ("damaged", "impossible", "doubled") else name
        assert json.loads(check("--only", asked, "--json")[1])["alarms"] == alarms
    assert check("--only", f"{name}s")[0] == 2


def test_what_devices_gave_up_is_an_alarm(check, tables):
    for n, counters in ((0, {"accepted": 0}), (3, {"accepted": 3, "dropped": 2})):
        tables.health("attic", n, 10 * n, counters, oldest=n)
    tables.marker(60, 61)
    tables.write()
    assert json.loads(check("--json")[1])["alarms"] == ["given_up"] and check("--max-given-up", "2")[0] == 0


def test_who_is_silent_is_judged_over_all_times(check, fleet):
    """By each device's interval over its whole life, until the end of the time."""
    day, hour = 86_400, 3600
    told = [("daily", n * day) for n in range(-9, -3)] + [("hourly", n * hour) for n in range(-90, -24)]
    told += [("runs", 60 * n) for n in range(-3000, 1) if not -300 < n < -200]
    for at in (0, -95 * hour):
        fleet.land(delivery("c/collector", {"sent": 1000 * (AT + at)}, 1000 * (AT + at)))
    for n, (device, at) in enumerate(told):
        fleet.land(telemetry(device, n, at=1000 * (AT + at)))
    fleet.run()
    found = json.loads(check("--since", "24h", "--json")[1])
    assert (found["devices"], found["silent"], found["tails"], found["alarms"]) == (3, 2, 2, ["silent"])
    assert json.loads(check("--json")[1])["silent"] == 2
    for hours, silent in ((3.5, ["daily", "hourly", "runs"]), (20, ["daily", "hourly"]), (23, ["daily"]), (26, [])):
        times = {"since": AT - 95 * hour, "until": AT - hours * hour}
        devices = gather(fleet.root, "inflight", now=AT + 70.0, **times)["devices"]
        assert [one["device"] for one in devices if one["silent"]] == silent


def test_a_collector_that_proves_nothing_is_behind(check, tables):
    tables.add("attic", 0)
    tables.write()
    status, output = check("--json")
    assert status == 1 and json.loads(output)["alarms"] == ["behind"]
    assert check("--max-behind", "1")[0] == 0


def test_a_landing_file_that_waits_is_an_alarm(check, troubled, tmp_path):
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/c-1-000001.ndjson").write_bytes(b"line\n")  # of a time that has not come
    assert json.loads(check("--json")[1])["stale"] == 1


def test_without_tables_it_fails(check, tmp_path):
    (tmp_path / "landing").mkdir()
    status, output = check()
    assert status == 1 and "there are no tables in" in output


def test_groups_what_devices_told_and_when_messages_were_lost(troubled):
    """A group is the label of a device, else its board."""
    found = gather(troubled.root, "inflight", now=AT + 70.0)
    none = dict.fromkeys(("devices", "silent", "nearly_full", "lost", "dead_letters"), 0) | {"holds_s": None}
    assert found["groups"] == [
        none | {"group": "north", "devices": 1, "lost": 1},
        none
        | {"group": "rp2", "devices": 1, "nearly_full": 1, "dead_letters": 1, "holds_s": pytest.approx(1351, rel=0.01)},
        none | {"group": "unknown", "dead_letters": 1},
    ]
    devices = {one["device"]: one for one in found["devices"]}
    told = ("state", "safe", "board", "micropython", "group", "nearly_full")
    assert [devices["attic"][name] for name in told] == ["offline", False, "esp32", "1.28.0", "north", False]
    assert [devices["cellar"][name] for name in told] == ["online", True, "rp2", None, "rp2", True]
    points = found["timeline"]["points"]
    assert {point["t"] - AT: point["gone"] for point in points if point["gone"]} == {30: 1}


def test_groups_have_a_bound_whatever_devices_say(tables):
    for n in range(60):
        tables.status(f"d{n:02}", 0, 0, state="online", group=f"g{n:02}")
    tables.write()
    found = totals(tables.root, "inflight", now=AT + 70.0)["groups"]
    assert len(found) == 51 and found[0] == found[0] | {"group": OTHERS, "devices": 10}


def test_how_long_a_journal_still_holds(tables):
    """A message of 84 bytes with a topic of 18, and 16 of the record, each 100 s: 1.18 bytes per second."""
    for seq in range(11):
        tables.add("attic", seq, 100 * seq, kind="telemetry", topic="inflight/attic/tel", payload=bytes(84))
    tables.health("attic", 11, 1000, {"accepted": 9}, journal_live=1, journal_used=100, journal_limit=1280)
    tables.write()
    found = gather(tables.root, "inflight", now=AT + 1000.0)
    assert found["devices"][0]["holds_s"] == pytest.approx(1180 / (11 * 118 / 1000), rel=0.01)
    assert found["groups"][0]["holds_s"] == found["devices"][0]["holds_s"]
