"""`inflight fleet device`: what an operator says of devices counts wherever they are judged."""

import json

import pytest

from host_tests.tools import command
from host_tests.tools.fleet.without_spark import AT, delivery, telemetry
from inflight_tools.fleet.query.facts import gather, of_device

NOW = AT / 1000
HOUR = 3600


@pytest.fixture
def say(fleet):
    """say(words, ...) of the device attic: (exit status, standard output, standard error)."""
    hours = {"attic": range(-90, -24), "cellar": range(-90, 1)}
    fleet.land(delivery("c/collector", {"sent": AT - 95 * HOUR * 1000}, AT - 95 * HOUR * 1000))
    fleet.land(delivery("c/collector", {"sent": AT}, AT))
    for device, times in hours.items():
        for n, hour in enumerate(times):
            fleet.land(telemetry(device, n, at=AT + 1000 * HOUR * hour))
    fleet.run()
    return lambda *words: command.fleet(fleet.root.parent, "device", *words)


def facts(fleet, now=NOW + 70):
    """(silent devices, how many ends are unknown, {device: its facts})."""
    found = gather(fleet.root, "inflight", now=now)
    devices = {one["device"]: one for one in found["devices"]}
    return [name for name, one in devices.items() if one["silent"]], found["fleet"]["tails"], devices


def test_a_retired_device_is_silent_no_more_until_it_sends(say, fleet):
    assert facts(fleet)[:2] == (["attic"], 1)
    assert say("retire", "attic")[0] == 0
    silent, tails, devices = facts(fleet)
    assert (silent, tails, devices["attic"]["delivered"], devices["attic"]["retired"]) == ([], 0, 66, True)
    folder = fleet.root.parent
    assert command.fleet(folder, "report")[0] == 0
    assert "retired" in (folder / "report.html").read_text()
    assert say("retire", "attic", "--undo")[0] == 0 and facts(fleet)[0] == ["attic"]
    (fleet.root / "registry.json").write_text(json.dumps({"devices": {"attic": {"retired": NOW}}}))
    fleet.land(telemetry("attic", 66, at=AT + 1000 * HOUR))
    fleet.run()
    silent, tails, devices = facts(fleet, NOW + 9 * HOUR)
    assert sorted(silent) == ["attic", "cellar"] and tails == 2 and not devices["attic"]["retired"]


def test_an_expected_interval_counts_in_place_of_the_mean(say, fleet):
    assert say("expect", "attic", "10h")[0] == 0 and facts(fleet)[0] == []
    assert say("expect", "attic", "7h")[0] == 0 and facts(fleet)[0] == ["attic"]
    assert say("expect", "cellar", "10m")[0] == 0
    assert facts(fleet, NOW + 1700)[0] == ["attic"] and facts(fleet, NOW + 1900)[0] == ["attic", "cellar"]
    assert say("expect", "cellar", "--undo")[0] == 0 and facts(fleet, NOW + 1900)[0] == ["attic"]


def test_a_group_and_a_note(say, fleet):
    """Of one device and of the fleet; a note is text, whatever stands in it."""
    assert say("group", "attic", "north")[0] == say("note", "attic", "<b>behind the stove")[0] == 0
    found = gather(fleet.root, "inflight", now=NOW + 70)
    assert {one["group"]: one["devices"] for one in found["groups"]} == {"north": 1, "unknown": 1}
    (one,) = of_device(fleet.root, "inflight", "attic", now=NOW + 70)["devices"]
    assert (one["group"], one["note"]) == ("north", "<b>behind the stove")
    command.fleet(fleet.root.parent, "report")
    page = (fleet.root.parent / "report.html").read_text()
    assert "&lt;b&gt;behind the stove · north" in page and "<b>behind" not in page
    assert say("list") == (0, "attic: group north, note <b>behind the stove\n", "")
    assert say("group", "attic", "--undo")[0] == say("note", "attic", "--undo")[0] == 0 and say("list")[1] == ""


@pytest.mark.parametrize("words", [("expect", "attic"), ("expect", "attic", "0h"), ("expect", "attic", "5 h"),
                                   ("group", "attic"), ("note", "attic", "x", "--undo")])  # fmt: skip
def test_what_cannot_be_said_changes_nothing(say, fleet, words):
    status, _, said = say(*words)
    assert status == 2 and "--undo" in said
    assert not (fleet.root / "registry.json").exists()


@pytest.mark.parametrize(("words", "why"), [
    (("retire", "attic", "--of", "s3://bucket/tables"), "a folder of this machine"),
    (("retire", ""), "one at least"), (("note", "attic", "\udcff"), "whole characters"),
])  # fmt: skip
def test_what_a_registry_cannot_have_is_refused(say, fleet, words, why):
    status, _, said = say(*words)
    assert status == 1 and why in said and said.count("\n") == 1
    assert not (fleet.root / "registry.json").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"devices": []}', '{"devices": {"a": {"retired": "x"}}}',
                                  '{"devices": {"a": {"gone": 1}}}', '{"devices": {"a": {"retired": 1e300}}}',
                                  '{"devices": {"a": {"interval_s": NaN}}}', '{"devices": {"": {"note": "x"}}}',
                                  '{"devices": {"a": {"note": "\\ud800"}}}', "[" * 9999])  # fmt: skip
def test_a_damaged_registry_is_told_by_whoever_reads_it(say, fleet, text):
    (fleet.root / "registry.json").write_text(text)
    for status, _, said in (say("list"), say("retire", "attic"), command.fleet(fleet.root.parent, "check")):
        assert status in (1, 2) and "registry.json is damaged: restore it" in said and said.count("\n") == 1
    assert (fleet.root / "registry.json").read_text() == text
