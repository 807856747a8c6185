"""`inflight fleet where`: the place of a message, and its way."""

import json

import pytest
from typer.testing import CliRunner

from host_tests.tools.fleet.where.conftest import AT, Tables
from inflight_tools.fleet.commands import app
from inflight_tools.fleet.query import views
from inflight_tools.fleet.query.database import Database
from inflight_tools.fleet.where.answer import answer
from inflight_tools.fleet.where.command import ELSEWHERE


@pytest.fixture
def where(tables, tmp_path):
    """where(device, number, ...) returns (exit status, standard output, standard error) of the command."""

    def ask(*words):
        done = CliRunner().invoke(app, ["where", *map(str, words), "--data", str(tmp_path)], env={"COLUMNS": "400"})
        return done.exit_code, done.stdout, done.stderr

    return ask


def places(tables, device, *numbers, epoch=None, grace_s=3600, **how):
    """[(place, whether it is proved)] of these numbers, 100 s after AT."""
    with Database(tables.root) as database:
        views.judge(database, AT + 100.0, grace_s, **how)
        landing, root = tables.root.parent / "landing", tables.root
        found = [answer(database, device, number, landing, root, "inflight", epoch) for number in numbers]
    return [(one["place"], one["proved"]) for one in found]


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """Devices of which a number is missing. The last marker that came back is of second 60."""
    tables = Tables(tmp_path_factory.mktemp("where") / "tables")
    # Number 1 was acknowledged before the marker, 3 after it, 5 is not.
    for seq, s, oldest in ((0, 0, 0), (2, 30, 2), (4, 90, 4), (6, 95, 5)):
        tables.add("all", seq, s, oldest)
    for device in ("full", "damaged", "lives", "expired"):
        tables.add(device, 0, oldest=0, **({"expiry": 60} if device == "expired" else {}))
    tables.health("full", 5, 20, {"accepted": 9, "dropped": 2}, oldest=5)
    tables.health("damaged", 3, 20, {"accepted": 4}, damaged=1, skipped=1, oldest=3)
    tables.health("lives", 3, 20, {"accepted": 4, "dropped": 2}, oldest=3)
    tables.health("lives", 5, 30, {"accepted": 1, "dropped": 1}, up=1, oldest=5)  # after a restart
    # On the device: its counters have it among the dropped ones.
    tables.health("expired", 2, 20, {"accepted": 3, "dropped": 1, "expired": 1}, oldest=2)
    for seq, s, oldest, epoch in ((0, 0, 0, 7), (3, 0, 1, 7), (0, 30, 0, 8)):
        tables.add("replaced", seq, s, oldest, epoch)
    for seq in (0, 2):
        tables.add("silent", seq)
    for name, given in (("expires", {"expiry": 60}), ("stays", {})):
        tables.add(name, 0, oldest=0)
        tables.add(name, 2, 30, 2, **given)
    tables.marker(60, 61)
    tables.write()
    return tables


PLACES = {
    "all": {
        **dict.fromkeys((0, 2, 4, 6), ("delivered", True)),
        1: ("lost", True),
        3: ("way", True),
        5: ("journal", True),
        7: ("after", False),
    },
    "full": {1: ("lost-or-given-up", True)},
    "damaged": {1: ("given-up", True)},
    "lives": {4: ("given-up", True)},  # the counters of each life are added up
    "expired": {1: ("given-up", True)},
    "replaced": {0: ("delivered", True)},  # of the newest journal
    "silent": {1: ("way", False)},
    "expires": {1: ("lost", True)},
    "stays": {1: ("lost", True)},
}


@pytest.mark.parametrize("device", PLACES)
def test_each_number_has_the_place_that_the_report_counts_it_in(judged, device):
    assert places(judged, device, *PLACES[device]) == list(PLACES[device].values())


def test_of_another_journal_and_by_age(judged):
    """Of a device that tells nothing the place is a guess by age."""
    assert places(judged, "replaced", 2, epoch=7) == [("erased", True)]
    assert places(judged, "silent", 1, grace_s=10) == [("lost", False)]


def test_the_command_tells_more_of_what_is_missing(judged):
    def told(*words):
        done = CliRunner().invoke(app, ["where", *words, "--data", str(judged.root.parent)], env={"COLUMNS": "400"})
        return done.exit_code, done.stdout

    status, text = told("replaced", "0")
    assert status == 0 and "epoch 8; the device had others: 7 (--epoch)" in text
    status, text = told("expires", "1")
    assert status == ELSEWHERE and "at most 60 s were left on arrival" in text
    assert "expiry" not in told("stays", "1")[1]


def line(number, s):
    body = json.dumps({"seq": number, "epoch": 7, "state": "online", "oldest": 0})
    message = {"at": 1000 * (AT + s), "by": "c", "topic": "inflight/attic/status", "qos": 1, "dup": False}
    return json.dumps(message | {"retain": False, "text": body}, separators=(",", ":")) + "\n"


def land(folder, name, *lines):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(lines))


@pytest.mark.parametrize("name", ["c-1-000001.ndjson", ".c-1-000001.spool"])
def test_a_message_that_has_landed_is_not_missing(tables, where, tmp_path, name):
    for seq in (0, 2):
        tables.add("attic", seq, oldest=seq)
    tables.marker(60, 61)
    tables.write()
    land(tmp_path / "landing", name, line(1, 9))
    status, output, _ = where("attic", 1)
    assert status == ELSEWHERE
    assert f"2025-10-09 08:53:29 UTC, in {tmp_path}/landing/{name}" in output


def test_the_way_of_a_message_that_was_delivered_twice(tables, where, tmp_path):
    tables.add("attic", 0, 5, 0)
    tables.add("attic", 0, 7, 0, first=False)
    tables.add("attic", 1, 9, 1, problem="not UTF-8")
    tables.write()
    land(tmp_path / "tables/landed/landing", "c-1-000001.ndjson", line(0, 5), line(0, 7))
    status, output, _ = where("attic", 0)
    assert status == 0 and output.rstrip().endswith("Delivered.")
    assert "08:53:29 UTC" in output and "the device had told so by" in output
    assert output.count("landed/landing/c-1-000001.ndjson") == 2 and output.count("repetition") == 1
    assert "rows: raw 2, in a file of 20" in output
    status, output, _ = where("attic", 1)
    assert status == 0 and "dead_letters 1" in output and "not UTF-8" in output and "landing file not found" in output


PROPERTIES = {
    "expiry": 86_340,
    "content_type": "application/senml+json",
    "payload_format": 1,
    "correlation": b"\xff\0",
    "user_properties": [{"name": "fw", "value": "1"}, {"name": "\x1b", "value": ""}, {"name": "fw", "value": "2"}],
}


def test_properties_of_a_delivery(tables, where):
    tables.add("attic", 0, 5, 0, **PROPERTIES)
    tables.add("attic", 0, 7, 0, first=False)
    tables.write()
    _, output, _ = where("attic", 0)
    shown = "expires 86340 s after receipt, content type application/senml+json, payload format 1, "
    assert shown + r"correlation data /wA= (base64), fw=1, \x1b=, fw=2" in output and output.count("expires") == 1
    first, again = json.loads(where("attic", 0, "--json")[1])["deliveries"]
    assert first["properties"] == PROPERTIES | {"correlation": "/wA="} and again["properties"] == {}


def test_a_delivery_that_was_deleted_by_age_is_known_from_the_ledger(tables, where):
    tables.add("attic", 0)
    tables.add("attic", 1)
    tables.raw.clear()
    tables.write()
    status, output, _ = where("attic", 0)
    assert status == 0 and "deleted by age" in output


def test_what_cannot_be_answered_is_an_error_that_says_why(tables, where):
    status, _, error = where("attic", 0)
    assert status == 1 and "there are no tables in" in error
    tables.add("attic", 0)
    tables.write()
    assert "no message with a number has arrived from a device cellar" in where("cellar", 0)[2]
    status, _, error = where("attic", 0, "--epoch", 9)
    assert status == 1 and "epoch 9 has arrived from attic, but of 7" in error
    assert where("attic", -1)[0] == 2 and where("attic", 1 << 32)[0] == 2
