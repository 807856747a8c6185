"""`inflight fleet report` and `export`, without Spark."""

import json
import shutil

import pyarrow.parquet
import pytest
from deltalake.fs import DeltaStorageHandler

from host_tests.thorough import more
from host_tests.tools.fleet.tables import AT
from host_tests.tools.fleet.without_spark import exported as rows
from inflight_tools.fleet.collect.counters import load, save
from inflight_tools.fleet.query.facts import gather
from inflight_tools.fleet.query.times import span, when
from inflight_tools.fleet.report.verdict import verdict


@pytest.fixture
def small(tables):
    """Of attic number 1 is lost; cellar has all."""
    for seq, s in ((0, 0), (2, 30)):
        tables.add("attic", seq, s, oldest=seq)
    for seq in range(3):
        tables.add("cellar", seq, 10 * seq, kind="telemetry")
    tables.marker(60, 61)
    tables.write()
    return tables


@pytest.mark.parametrize("scheme", ["file://", *more("")])
def test_tables_and_landing_files_in_a_folder_or_at_a_uri(small, run, tmp_path, scheme):
    """As in object storage."""
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/c-1-000001.ndjson").write_bytes(b"line\n")
    places = "--of", f"{scheme}{tmp_path}/tables", "--landing", f"{scheme}{tmp_path}/landing"
    status, output, error = run("report", *places, "--json")
    assert status == 0, error
    facts = json.loads(output)
    fleet = {name: facts["fleet"][name] for name in ("devices", "accepted", "delivered", "lost")}
    assert fleet == {"devices": 2, "accepted": 6, "delivered": 5, "lost": 1}
    assert facts["unread"] == {"files": 1, "bytes": 5, "stale": 0}
    status, _, error = run("export", f"{scheme}{tmp_path}/out", *places)
    assert status == 0, error
    assert {row["device"]: row["lost"] for row in rows(tmp_path / "out/devices")} == {"attic": 1, "cellar": 0}
    (missing,) = rows(tmp_path / "out/missing")
    assert (missing["device"], missing["lo"], missing["hi"], missing["place"]) == ("attic", 1, 1, "gone")
    assert rows(tmp_path / "out/aggregates") == []


def test_a_report_may_fail_on_losses(small, run, tmp_path):
    assert run("report")[0] == 0
    assert run("report", "--fail-on", "lost")[0] == 3 and (tmp_path / "report.html").exists()
    small.add("attic", 1, 20, oldest=1)
    small.write(mode="overwrite")
    assert run("report", "--fail-on", "lost")[0] == 0
    assert run("report", "--fail-on", "gain")[0] == 2


def test_a_report_tells_what_has_changed_since_the_one_that_it_replaces(small, run, tmp_path):
    first = json.loads(run("report", "--json")[1])
    assert first["change"] is None and "Changed since" not in (tmp_path / "report.html").read_text()
    for seq in (5, 6):
        small.add("attic", seq, 90, oldest=seq)
    small.marker(120, 121)
    small.write(mode="overwrite")
    second = json.loads(run("report", "--json")[1])["change"]
    assert second["since"] == first["made"]
    differ = {name: n for name, n in second["figures"].items() if n}
    assert differ == {"accepted": 4, "delivered": 2, "lost": 2}
    assert "accepted +4 · delivered +2 · lost +2." in (tmp_path / "report.html").read_text()
    assert json.loads(run("report", "--json", "--out", tmp_path / "other.html")[1])["change"] is None


@pytest.mark.parametrize(
    "name", ["devices/mine.txt", *more("aggregates/size=day/part-0.parquet/x", "missing/data.parquet")]
)
def test_an_export_deletes_no_other_files(small, run, tmp_path, name):
    mine = tmp_path / "out" / name
    mine.parent.mkdir(parents=True)
    mine.write_bytes(b"mine")
    beside = tmp_path / "out/mine.txt"
    beside.write_bytes(b"mine")
    assert run("export", tmp_path / "other")[0] == 0
    assert len(rows(tmp_path / "other/devices")) == 2
    (tmp_path / "other/devices/part-7.parquet").write_bytes(b"old")
    assert run("export", tmp_path / "other")[0] == 0  # it replaces the one before
    assert len(rows(tmp_path / "other/devices")) == 2
    status, _, error = run("export", tmp_path / "out")
    assert mine.read_bytes() == beside.read_bytes() == b"mine"
    assert status == 1 and "is not of an export, which replaces all in its folder: give another folder" in error
    assert not (tmp_path / "out/devices/part-0.parquet").exists()


@pytest.mark.parametrize("command", ["report", *more("export out", "where attic 0")])
def test_a_file_of_the_tables_that_is_missing(small, run, tmp_path, command):
    for path in (tmp_path / "tables/raw").glob("**/*.parquet"):
        path.unlink()
    status, _, error = run(*command.split())
    assert status == 1
    assert "a file of the tables is missing: restore it, or make new ones: move the files below" in error


def test_a_folder_of_an_export_that_goes_away(small, run, tmp_path, monkeypatch):
    """The tables lack nothing."""
    write = pyarrow.parquet.write_table

    def gone(*words, **more):
        shutil.rmtree(tmp_path / "out")
        write(*words, **more)

    monkeypatch.setattr(pyarrow.parquet, "write_table", gone)
    status, _, error = run("export", tmp_path / "out")
    assert status == 1 and f"the export cannot be written to {tmp_path / 'out'}: " in error
    assert "No such file" in error and "of the tables" not in error


@pytest.mark.parametrize(("name", "changed"), [("100%25", "%25"), ("a\\b", "\\")])
def test_a_folder_whose_name_deltalake_changes(small, run, tmp_path, name, changed):
    (tmp_path / "tables").rename(tmp_path / name)
    status, _, error = run("report", "--of", tmp_path / name)
    assert status == 1
    assert f"reads {changed} in the name of a folder as another character: give another folder" in error


@pytest.mark.parametrize("name", ["[2026] a*b?c {a,b} it's", *more("day=3", "~", "a, b; #c \u202e")])
def test_the_name_of_a_folder_is_no_pattern(small, run, tmp_path, name):
    """Nor does it add a column."""
    home = tmp_path / name
    home.mkdir()
    (tmp_path / "tables").rename(home / "tables")
    (home / "landing").mkdir()
    (home / "landing/c-1-000001.ndjson").write_bytes(b"line\n")
    places = "--of", home / "tables", "--landing", home / "landing"
    status, output, error = run("report", *places, "--json")
    assert status == 0, error
    facts = json.loads(output)
    assert (facts["fleet"]["accepted"], facts["fleet"]["lost"], facts["unread"]["files"]) == (6, 1, 1)
    assert run("where", "attic", "2", *places)[0] == 0
    assert run("export", home / "out", *places)[0] == 0
    assert len(rows(home / "out/devices")) == 2


def test_tables_are_read_without_python(small, run, tmp_path, monkeypatch):
    """Threads that wait for each other's locks, Arrow's and Python's, hung a report beside a writer."""
    monkeypatch.setattr(DeltaStorageHandler, "open_input_file", lambda *_: pytest.fail("a file is read by Python"))
    for command in ("report", "export out", "where attic 2"):
        status, _, error = run(*command.replace("out", f"{tmp_path}/out").split())
        assert status == 0, error


def test_files_of_several_versions(small, run):
    """Those of the earlier one lack columns."""
    small.write(without=("expiry", "content_type", "user_properties"), mode="overwrite", schema_mode="overwrite")
    later = type(small)(small.root)
    later.add("attic", 3, 40, oldest=3, expiry=60)
    later.write(mode="append", schema_mode="merge")
    facts = json.loads(run("report", "--json")[1])
    assert facts["fleet"]["delivered"] == 6 and facts["fleet"]["lost"] == 1
    delivery = json.loads(run("where", "attic", 3, "--json")[1])["deliveries"]
    assert [one["properties"] for one in delivery] == [{"expiry": 60}]


def test_messages_with_properties(tables, run, tmp_path):
    """A number that is lost may have expired at the broker. A dead letter has its content type."""
    for name, given in (("attic", {"expiry": 60}), ("cellar", {}), ("whole", {"expiry": 60})):
        for seq in (0, 2) if name != "whole" else (0, 1):
            tables.add(name, seq, seq, seq, **given)
    tables.add("binary", 0, problem="not UTF-8", content_type="application/cbor")
    tables.marker(60, 61)
    tables.write()
    facts = json.loads(run("report", "--json")[1])
    flags = {one["device"]: one["flags"] for one in facts["devices"]}
    assert flags == {"attic": ["lost, or expired at the broker"], "cellar": [], "whole": [], "binary": []}
    assert [one["content_type"] for one in facts["dead_letters"]] == ["application/cbor"]
    assert "application/cbor" in (tmp_path / "report.html").read_text()
    run("export", tmp_path / "out")
    found = {row["device"]: (row["lost"], row["expires"]) for row in rows(tmp_path / "out/devices")}
    assert found == {"attic": (1, 60), "cellar": (1, None), "whole": (0, 60), "binary": (0, None)}


def test_what_a_device_tells_after_a_time_that_it_gave_up_is_not_lost_in_it(tables):
    """Its counters are in the next health message. Numbers 1 and 2 are of the time before AT + 40, 5 of the other."""
    tables.health("attic", 0, 0, {"accepted": 1, "dropped": 0}, oldest=0)
    tables.add("attic", 3, 20, oldest=3)
    tables.health("attic", 4, 60, {"accepted": 5, "dropped": 2}, oldest=4)
    tables.add("attic", 6, 70, oldest=6)
    tables.health("attic", 7, 80, {"accepted": 8, "dropped": 3}, oldest=7)
    tables.add("hall", 0, 10, oldest=0)
    tables.add("hall", 2, 20, oldest=2)
    tables.health("hall", 3, 50, {"accepted": 4, "dropped": 1}, oldest=3)
    tables.marker(100, 101)
    tables.write()

    def figures(**how):
        devices = gather(tables.root, "inflight", now=AT + 200, **how)["devices"]
        return {one["device"]: (one["delivered"], one["given_up"], one["lost"]) for one in devices}

    assert figures() == {"attic": (5, 3, 0), "hall": (3, 1, 0)}
    assert figures(until=AT + 40) == {"attic": (2, 2, 0), "hall": (2, 1, 0)}
    assert figures(since=AT + 40) == {"attic": (3, 1, 0), "hall": (1, 0, 0)}
    assert figures(since=AT + 10, until=AT + 40) == {"attic": (1, 2, 0), "hall": (2, 1, 0)}


def test_readings_that_were_thinned_are_a_cause_of_their_own(tables):
    """They count since the journal was made, over restarts; what was dropped counts for itself."""
    tables.health("attic", 0, 0, {"accepted": 1}, oldest=0)
    tables.health("attic", 5, 20, {"accepted": 5, "thinned": 3}, oldest=5)
    tables.health("attic", 8, 40, {"accepted": 1, "dropped": 1, "thinned": 4}, up=1, oldest=8)  # after a restart
    tables.add("attic", 10, 50, oldest=9)
    tables.marker(100, 101)
    tables.write()
    (found,) = gather(tables.root, "inflight", now=AT + 200)["devices"]
    assert (found["delivered"], found["given_up"], found["lost"]) == (4, 5, 1)
    assert found["gave_up"] == {"erased": 0, "dropped": 1, "thinned": 4, "damaged": 0, "skipped": 0}
    assert "journal was thinned" in found["flags"]


@pytest.mark.parametrize("command", ["report", "export"])
def test_a_time_that_cannot_be_read_is_a_wrong_argument(run, command):
    to = ["out"] if command == "export" else []
    status, _, error = run(command, *to, "--since", "yesterday")
    assert status == 2 and "--since yesterday: 24h or 7d (ago), or a time in UTC" in error
    assert run(command, *to, "--since", "1h", "--until", "2h")[0] == 2


def test_times():
    assert when("--since", "90m", 10_000) == 10_000 - 5400 and when("--since", "7d", 1e6) == 1e6 - 7 * 86_400
    assert when("--since", "1970-01-02", 0) == 86_400 and when("--since", "1970-01-01T01:00", 0) == 3600
    assert when("--since", "1970-01-01T01:00+01:00", 0) == when("--since", "1970-01-01T00:00:00Z", 0) == 0
    assert span(None, "1h", 3600) == (None, 0)
    with pytest.raises(ValueError, match="--since 1h is not before --until 2h"):
        span("1h", "2h", 0)


def test_the_page_has_what_collectors_have_counted(small, run, tmp_path):
    landing = tmp_path / "landing"
    landing.mkdir()
    save(landing / ".c.json", {"at": AT, "by": "c", "connected": True, "messages": 7, "lag_ms": {"mean": 1, "max": 2}})
    (landing / ".broken.json").write_text("{")
    (landing / ".other.json").write_text("[]")
    assert [figures["messages"] for figures in load(landing)] == [7]
    status, output, error = run("report", "--json")
    assert status == 0, error
    assert json.loads(output)["counters"] == load(landing)
    assert "</svg> silent" in (tmp_path / "report.html").read_text()  # its file is old


@pytest.mark.parametrize("wrong", [-400 * 86_400, *more(86_000)])
def test_one_message_that_was_received_by_a_wrong_clock_spoils_no_timeline(tables, wrong):
    """Nor the interval in which its device usually reports."""
    for seq in range(1200):
        tables.add("attic", seq, 3 * seq)
    tables.add("attic", 1200, wrong)
    tables.write()
    found = gather(tables.root, "inflight", now=AT + 3600.0)
    timeline = found["timeline"]
    assert timeline["step_s"] == 30 and sum(point["received"] for point in timeline["points"]) == 1200
    assert (found["since"], found["until"]) == (AT, AT + 3597)
    assert found["outside"] == {"count": 1, "first": AT + wrong, "last": AT + wrong}
    assert "1 delivery far from all others in time" in " ".join(verdict(found).notes)
    assert found["fleet"]["delivered"] == 1201
    assert [one["silent"] for one in gather(tables.root, "inflight", now=AT + 3600.0 + 1200)["devices"]] == [1203]


def test_a_fleet_that_was_silent_for_long_is_on_the_timeline(tables):
    for seq in range(200):
        tables.add("attic", seq, 3 * seq + (0 if seq < 10 else 400 * 86_400))
    tables.write()
    found = gather(tables.root, "inflight", now=AT + 401 * 86_400.0)
    assert found["outside"] is None and found["since"] == AT
    assert sum(point["received"] for point in found["timeline"]["points"]) == 200


PROVED, BY_AGE, NEVER = (1, 0), (1, 1), (0, 0)  # what is lost in the end, and how much of it by age only
# Of markers, (run, number, second at which it was sent): what is lost, and why they prove nothing.
MARKERS = {
    "two machines": ([(1000, 1, 300), (1000, 2, 900), (1500, 1, 600), (1500, 2, 1200)], BY_AGE, "back"),
    "its clock was set back": ([(1000, 1, 900), (1000, 2, 300)], BY_AGE, "back"),
    "by less than clocks differ": ([(1000, 1, 900), (1000, 2, 850)], PROVED, None),
    "a restart": ([(1000, 1, 300), (1000, 2, 600), (1500, 1, 900), (1500, 2, 1200)], PROVED, None),
    "delivered twice": ([(1000, 1, 300), (1000, 2, 900), (1000, 1, 300)], PROVED, None),
    # So what it has received is of another time, too.
    "its clock is a day ahead": ([(1000, 1, 86_460)], BY_AGE, "ahead"),
    # The retained one is a copy from the broker: nothing that was sent before need have landed, but another was there.
    "the retained one of another collector": ([(1000, 1, 20), (1500, 9, 800, True)], NEVER, None),
    "and then its own": ([(1000, 1, 20), (1500, 9, 800, True), (1000, 2, 1060)], BY_AGE, "back"),
}


@pytest.mark.parametrize("name", MARKERS)
def test_what_markers_prove(tables, name):
    """Number 1 is missing, and acknowledged."""
    markers, in_the_end, doubt = MARKERS[name]
    for seq, s in ((0, 0), (2, 30)):
        tables.add("attic", seq, s, oldest=seq)
    for run, n, sent, *retain in markers:
        tables.marker(sent, sent, run, n, retain=bool(retain))
    tables.write()

    def lost(now):
        found = gather(tables.root, "inflight", now=float(AT + now))
        assert [one["doubt"] for one in found["collectors"]] == [doubt]
        return found["fleet"]["lost"], found["fleet"]["guessed"]

    assert (lost(1300), lost(7200)) == (PROVED if in_the_end == PROVED else NEVER, in_the_end)
