"""`inflight fleet device`: what an operator says of devices counts wherever they are judged."""

import itertools
import json
import re
import shlex
import shutil
import subprocess

import pytest

from host_tests.tools import command
from host_tests.tools.fleet.without_spark import AT, delivery, telemetry
from inflight_tools.fleet.query.database import Database
from inflight_tools.fleet.query.facts import gather, of_device
from tools.setup.common import CHECKOUT

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


def test_a_backup_is_restored_in_another_place(say, fleet, tmp_path_factory):
    """As docs/pipeline/tables.md tells."""
    assert say("retire", "attic")[0] == 0
    folder, other = fleet.root.parent, tmp_path_factory.mktemp("other")
    page = (CHECKOUT / "docs/pipeline/tables.md").read_text()
    pack, unpack = [shlex.split(line.replace("telemetry", folder.name)) for line in re.findall("^tar .*", page, re.M)]
    subprocess.run(pack, cwd=folder.parent, check=True)
    before = gather(fleet.root, "inflight", now=NOW)
    shutil.rmtree(folder)
    subprocess.run([*unpack[:-1], folder.parent / unpack[-1]], cwd=other, check=True)
    after = gather(other / folder.name / fleet.root.name, "inflight", now=NOW)
    assert before.pop("made") and after.pop("made") and after == before


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
                                   ("rename", "attic"), ("group", "attic"),
                                   ("note", "attic", "x", "--undo")])  # fmt: skip
def test_what_cannot_be_said_changes_nothing(say, fleet, words):
    status, _, said = say(*words)
    assert status == 2 and "--undo" in said
    assert not (fleet.root / "registry.json").exists()


@pytest.mark.parametrize(("words", "why"), [
    (("retire", "attic", "--of", "s3://bucket/tables"), "a folder of this machine"),
    (("note", "attic", "\udcff"), "whole characters"), (("rename", "attic", "a/b"), "'a/b' is no name of a device: "),
    *(((act, name, "10m"), "write 1 to 128 characters, without /, +, # and") for act, name in (
        ("expect", ""), ("group", "a/b"), ("note", 129 * "a"), ("note", "+"), ("group", "a\x9f"), ("note", "\udcff"))),
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


def renamed(fleet, epoch, first):
    """A fleet in which attic sends at hours 0 to 9, then as loft with a journal of this epoch at 10 to 19, from number
    `first` on, and its will as attic comes late; and cellar all the time. Returns the time of the end in s."""
    hours = [("attic", 7, n, n) for n in range(10)] + [("loft", epoch, first + n, 10 + n) for n in range(10)]
    hours += [("cellar", 7, n, n) for n in range(20)]
    fleet.land(delivery("c/collector", {"sent": AT - HOUR * 1000}, AT - HOUR * 1000))
    for device, journal, seq, hour in hours:
        fleet.land(telemetry(device, seq, hour, journal, AT + 1000 * HOUR * hour))
    online = {"state": "online", "board": "esp32", "seq": first + 10, "epoch": epoch}
    fleet.land(delivery("loft/status", online, AT + 10 * 1000 * HOUR))
    fleet.land(delivery("attic/status", {"state": "offline"}, AT + 10 * 1000 * HOUR + 90_000))
    fleet.land(delivery("c/collector", {"sent": AT + 20 * HOUR * 1000}, AT + 20 * HOUR * 1000))
    fleet.run()
    return NOW + 19 * HOUR + 70


COUNTS = ("accepted", "delivered", "lost", "epochs", "measurements", "state", "board", "flags", "former")


@pytest.mark.parametrize(("epoch", "first", "epochs"), [(7, 10, 1), (9, 0, 2)], ids=("kept", "new"))
def test_a_renamed_device_is_one_device(fleet, epoch, first, epochs):
    """With the journal that it had, whose numbers go on, and with a new one; from summaries that were kept before."""
    now = renamed(fleet, epoch, first)
    before = gather(fleet.root, "inflight", now=now)
    folder, flags = fleet.root.parent, ["journal replaced"] if epochs > 1 else []
    command.fleet(folder, "device", "note", "attic", "behind the stove")
    assert command.fleet(folder, "device", "rename", "attic", "loft") == (0, "", "")
    found = gather(fleet.root, "inflight", ["attic"], now=now)
    one = {one["device"]: one for one in found["devices"]}["loft"]
    assert [one[name] for name in COUNTS] == [21, 21, 0, epochs, 20, "online", "esp32", flags, ["attic"]]
    assert (one["note"], one["silent"], one["since"]) == ("behind the stove", 0, NOW + 10 * HOUR)
    assert found["fleet"]["devices"] == before["fleet"]["devices"] - 1 == 2 and not found["fleet"]["doubled"]
    assert {name: series[0]["count"] for name, series in found["measurements"].items()} == {"loft": 20, "cellar": 20}
    for name in ("attic", "loft"):
        (page,) = of_device(fleet.root, "inflight", name, 3, 7, fleet.landing, now=now)["devices"]
        assert page == one
        status, said, _ = command.fleet(folder, "where", name, 3, "--epoch", 7, "--json")
        assert status == 0 and json.loads(said)["device"] == "loft"
    half = gather(fleet.root, "inflight", now=now, since=NOW + 5 * HOUR - 1)
    assert {one["device"]: one["delivered"] for one in half["devices"]} == {"loft": 16, "cellar": 15}
    assert command.fleet(folder, "device", "rename", "attic", "--undo")[0] == 0
    assert command.fleet(folder, "device", "note", "attic", "--undo")[0] == 0
    assert gather(fleet.root, "inflight", now=now) == before


def test_names_after_names(fleet):
    """A name may change again, or be taken back; what was said under an earlier name counts until it is forgotten."""
    now = renamed(fleet, 9, 0)

    def say(*words):
        return command.fleet(fleet.root.parent, "device", *words)[::2]

    def devices():
        return {one["device"]: one["group"] for one in gather(fleet.root, "inflight", now=now)["devices"]}

    assert say("rename", "attic", "loft") == say("group", "attic", "north") == (0, "")
    assert say("rename", "loft", "garret") == (0, "") and devices() == {"garret": "north", "cellar": None}
    why = "attic is garret now: rename that, or take the other name back: `inflight fleet device rename attic --undo`"
    assert say("rename", "attic", "den") == (1, f"FAILED: {why}\n")
    status, said = say("rename", "garret", "attic")
    assert status == 1 and "garret cannot become attic: attic was renamed to it: forget one of the names" in said
    assert "that is its name" in say("rename", "cellar", "cellar")[1]
    assert say("group", "garret", "--undo") == (0, "") and devices()["garret"] == "esp32"
    assert say("rename", "loft", "--undo") == (0, "") and devices() == {"loft": "esp32", "cellar": None}
    (fleet.root / "registry.json").write_text('{"devices": {"a": {"renamed": "b"}, "b": {"renamed": "a"}}}')
    assert "registry.json is damaged" in say("list")[1]


@pytest.mark.parametrize(("old", "new", "why"), [
    ("atic", "loft", "there is no device atic in the tables: there is attic\n"),
    ("attic", "cellar", "attic and cellar are two devices, which have sent the same number of one journal: retire one"),
    ("loft", "cellar", "loft and cellar are two devices, which have sent at the same time for more than a minute: "),
])  # fmt: skip
def test_what_is_not_one_device_is_not_renamed(fleet, old, new, why):
    renamed(fleet, 9, 0)
    status, _, said = command.fleet(fleet.root.parent, "device", "rename", old, new)
    assert status == 1 and why in said
    assert not (fleet.root / "registry.json").exists()


def test_a_name_whose_numbers_collide_later_is_a_device_again(fleet):
    """The board that has the old name was copied: both count what is theirs, and what is said of one is said of it."""
    now = renamed(fleet, 7, 10)
    assert command.fleet(fleet.root.parent, "device", "rename", "attic", "loft")[0] == 0
    fleet.land(telemetry("attic", 10, at=AT + 1000 * HOUR * 15))
    fleet.run()
    found = gather(fleet.root, "inflight", now=now)
    assert {one["device"]: one["delivered"] for one in found["devices"]} == {"attic": 11, "loft": 11, "cellar": 20}
    assert found["fleet"]["doubled"] == 0
    assert command.fleet(fleet.root.parent, "device", "retire", "attic")[0] == 0
    assert command.fleet(fleet.root.parent, "device", "rename", "attic", "den")[0] == 0
    devices = gather(fleet.root, "inflight", now=now)["devices"]
    assert {one["device"]: one["retired"] for one in devices} == {"den": True, "loft": False, "cellar": False}


class Name(str):
    """Counts how often it is compared with another one."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)


def test_many_names_are_not_compared_with_each_other(tables):
    tables.add("n0", 0)
    tables.write()
    many = [Name(f"n{n}") for n in range(2000)]
    said = {old: {"renamed": new} for old, new in itertools.pairwise(many)}
    with Database(tables.root, said) as database:
        assert database.names("n0")[0] == "n1999" and Name.compared < 10 * len(many)
        assert database.row("SELECT max(hops) AS most FROM renamed")["most"] == 1999
