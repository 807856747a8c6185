"""Hostile messages become dead letters, and stop nothing. One fleet has them all, in two batches."""

import base64
import json
from types import SimpleNamespace

import pytest

NOW = 1_760_000_000_000
YEAR = 365 * 86400
MEGABYTE = json.dumps([{"n": "a", "vs": "x" * 1_000_000, "seq": 9, "epoch": 9}])
CLOCKS = (NOW / 1000 - 7 * 86400, 0, 3600, NOW / 1000 - 10 * YEAR, NOW / 1000 + 75 * YEAR, NOW / 1000)


def hostile(telemetry, message):
    """Hostile messages between two good ones."""
    yield telemetry("good", 0)
    yield message("bad/telemetry", "nonsense")
    yield message("bad/telemetry", '[{"n":"a","v":NaN,"seq":1,"epoch":1}]')
    yield message("bad/telemetry", MEGABYTE)
    yield message("bad/telemetry", "[" * 60_000)
    yield message("bad/telemetry", "", text=None, base64=base64.b64encode(b"\xff\xfe\x00").decode())
    yield message("bad/telemetry", [{"n": "\u202e<script>", "v": 1, "seq": 1, "epoch": 1}])
    yield message("bad/telemetry", '[{"n":"a","vs":"\\ud800","seq":2,"epoch":1}]')
    yield message("bad/telemetry", "[]")
    yield message("bad/health", {"seq": 3, "epoch": 1, "up": "ever"})
    yield message("bad/elsewhere", "{}")
    yield b"\xff\xfe not JSON\r with other line ends\n"
    yield telemetry("good", 1)
    yield '{"at": 17600'  # incomplete, as after a power cut


LETTERS = 12


@pytest.fixture(scope="module")
def result(common_fleet, telemetry, message):
    """The fleet after both batches: .fleet, .facts, and .devices by name."""
    fleet = common_fleet
    # A message with one bad record, delivered twice.
    odd = message("odd/telemetry", [{"n": "a", "v": "hot", "seq": 1, "epoch": 7}, {"n": "b", "v": 1}])
    odds = [message("odd/telemetry", [{"n": "a", "v": 1, "seq": 0, "epoch": 7}]), odd, odd]
    fleet.land(*hostile(telemetry, message))
    fleet.land(*[telemetry("clocks", n, bt=bt) for n, bt in enumerate(CLOCKS)], *odds)
    fleet.land(telemetry("jumps", 0, bt=NOW / 1000 - 5), telemetry("jumps", 1, bt=NOW / 1000 - 7200))
    fleet.land(telemetry("late", 1, bt=NOW / 1000 - 5), telemetry("late", 0, bt=NOW / 1000 - 7200))
    for n in range(4):
        at = NOW + n * 100_000
        fleet.land(telemetry("new", n % 2, epoch=1 + n // 2, at=at), telemetry("two", n // 2, epoch=1 + n % 2, at=at))
    fleet.land(telemetry("copied", 0, 20.0), telemetry("again", 0, 20.0))
    fleet.land(*[telemetry("gaps", n) for n in range(0, 3000, 2)])
    fleet.run()
    fleet.land(*[telemetry("gaps", n) for n in range(1, 2001, 2)], telemetry("gaps", 0), telemetry("gaps", 2998))
    fleet.land(*[telemetry("gaps", n) for n in (1 << 20, (1 << 20) + 1, (1 << 21) - 1)])
    fleet.land(telemetry("good", 2))
    fleet.land(telemetry("copied", 0, 99.0, dup=True), telemetry("again", 0, 20.0, dup=True))
    fleet.run()
    facts = fleet.facts()
    return SimpleNamespace(fleet=fleet, facts=facts, devices={one["device"]: one for one in facts["devices"]})


def test_hostile_messages_become_dead_letters_and_stop_nothing(result):
    measured = result.fleet.tables.measurements.read().where("device = 'good'")
    assert sorted(row["seq"] for row in measured.collect()) == [0, 1, 2]
    rows = result.fleet.tables.dead_letters.read().where("device IS NULL OR device = 'bad'").collect()
    letters = {row["reason"]: bytes(row["payload"]) for row in rows}
    assert len(rows) == len(letters) == LETTERS
    assert letters["not UTF-8"] == b"\xff\xfe\x00"
    assert letters[f"{len(MEGABYTE)} bytes, 65536 are read"] == MEGABYTE.encode()
    assert result.devices["good"]["flags"] == []


def test_the_report_shows_each_reason_with_an_example(result):
    shown = {one["reason"]: one for one in result.facts["dead_letters"]}
    assert shown["not UTF-8"]["example"] == "\\xff\\xfe\x00" and shown["not UTF-8"]["count"] == 1
    assert sum(one["count"] for one in shown.values()) == result.facts["fleet"]["dead_letters"] == LETTERS + 1
    assert json.loads(json.dumps(result.facts)) == result.facts


def test_a_message_with_a_problem_keeps_its_number_and_its_good_records(result):
    odd = result.devices["odd"]
    assert (odd["accepted"], odd["delivered"], odd["lost"], odd["repeated"]) == (2, 2, 0, 1)
    assert odd["dead_letters"] == 1 and odd["measurements"] == 2


def test_wrong_clocks_are_flagged_and_lose_nothing(result):
    rows = result.fleet.tables.measurements.read().where("device = 'clocks'").orderBy("seq").collect()
    assert [row["clock"] for row in rows] == ["device", "receipt", "ahead", "behind", "ahead", "device"]
    assert {row["time"].timestamp() for row in rows} == {NOW / 1000, NOW / 1000 - 7 * 86400}
    assert "clock wrong" in result.devices["clocks"]["flags"] and result.devices["clocks"]["lost"] == 0


def test_a_clock_that_jumps_back_is_flagged_and_a_message_that_comes_late_is_not(result):
    assert result.devices["jumps"]["flags"] == ["clock jumped"] and result.devices["late"]["flags"] == []


def test_a_device_that_lost_its_journal_and_two_that_share_an_id(result):
    assert result.devices["new"]["flags"] == ["journal replaced"]
    assert result.devices["two"]["flags"] == ["two boards, one id"]
    for name in ("new", "two"):
        assert result.devices[name]["delivered"] == 4 and result.devices[name]["lost"] == 0


def test_other_content_under_the_same_number_is_flagged(result):
    """Two boards with copies of one journal."""
    copied, again = result.devices["copied"], result.devices["again"]
    assert copied["conflicts"] == 1 and copied["flags"] == ["same number, other content"]
    assert again["conflicts"] == 0 and again["flags"] == []
    (kept,) = result.fleet.tables.measurements.read().where("device = 'copied'").collect()
    assert kept["value"] == 20.0


def test_a_late_number_counts_however_many_are_missing(result):
    """As if a member of a group of collectors came back after hours, with every second message. The last numbers are
    far apart, in other rows of the ledger."""
    gaps = result.devices["gaps"]
    assert (gaps["accepted"], gaps["delivered"], gaps["repeated"], gaps["flags"]) == (1 << 21, 2503, 2, [])
    assert gaps["lost"] == gaps["accepted"] - gaps["delivered"]
    found = sorted(result.fleet.numbers("measurements", "device = 'gaps'"))
    expected = [n for n in range(3000) if n % 2 == 0 or n < 2001] + [1 << 20, (1 << 20) + 1, (1 << 21) - 1]
    assert found == [("gaps", 7, n) for n in expected]
