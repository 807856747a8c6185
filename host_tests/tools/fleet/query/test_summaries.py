"""Summaries of files: a report has the figures that it has without them, whatever was written, merged and deleted
before, and whatever became of the files in which summaries are kept."""

import concurrent.futures
import json
import os
import resource
import shutil
import tempfile
from pathlib import Path

import duckdb
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as some

from host_tests.thorough import PIPELINE, THOROUGH
from host_tests.tools.fleet.tables import AT
from host_tests.tools.fleet.without_spark import Fleet, row
from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.query import summaries
from inflight_tools.fleet.query.facts import gather
from inflight_tools.fleet.query.summaries import FOLDER

HOUR = 3600
NOW = AT + 100 * HOUR


def message(device, epoch, seq, kind, at, body=(), made=None, collector="c"):
    """A delivery; kind: telemetry, health, status, release or log."""
    told = {"seq": seq, "epoch": epoch, **dict(body)}
    if kind == "telemetry":
        told |= {"bn": f"urn:dev:mac:{device}:", "bt": at if made is None else made, "n": "a", "v": 1}
    return row(f"{device}/{kind}", [told] if kind == "telemetry" else told, at, collector)


def marker(sent, at, collector="c"):
    return row(f"{collector}/collector", {"sent": 1000 * sent, "run": 1, "n": sent}, at, collector)


def figures(root, **how):
    """The facts, with numbers that are sums of others in another order."""
    facts = gather(root, "inflight", now=float(NOW), **how)
    return json.loads(json.dumps(facts), parse_float=lambda text: float(f"{float(text):.9g}"))


@pytest.fixture(autouse=True)
def all_are_kept(monkeypatch):
    monkeypatch.setattr(summaries, "FEW", 0)


DEVICES = some.sampled_from(["attic", "cellar"])
TIMES = some.integers(0, 300).map(lambda s: AT + s) | some.integers(0, 90).map(lambda hours: AT + hours * HOUR)
NUMBERS = some.integers(0, 12)
EPOCHS = some.sampled_from([7, 7, 7, 8])
COUNTS = some.fixed_dictionaries({"counters": some.fixed_dictionaries(dict.fromkeys(("accepted", "dropped"), NUMBERS))})
HEALTH = some.tuples(COUNTS, some.fixed_dictionaries({}, optional={"up": some.integers(0, 5), "oldest": NUMBERS}))
STATES = some.fixed_dictionaries(
    {"state": some.sampled_from(["online", "offline", "asleep"])}, optional={"oldest": NUMBERS, "board": some.text()}
)
MESSAGES = some.one_of(
    some.builds(
        message, DEVICES, EPOCHS, NUMBERS, some.just("telemetry"), TIMES, some.just({}), TIMES, some.sampled_from("cd")
    ),
    some.builds(message, DEVICES, EPOCHS, NUMBERS, some.just("status"), TIMES, STATES),
    some.builds(message, DEVICES, EPOCHS, NUMBERS, some.just("health"), TIMES, HEALTH.map(lambda two: two[0] | two[1])),
    some.builds(message, DEVICES, EPOCHS, NUMBERS, some.sampled_from(["release", "log", "other"]), TIMES),
    some.builds(lambda sent, late: marker(sent, sent + late), TIMES, some.integers(0, 5)),
)
STEPS = some.sampled_from(["report", "report", "merge", "forget", "nothing"])
HISTORIES = some.lists(some.tuples(some.lists(MESSAGES, min_size=1, max_size=12), STEPS), min_size=1, max_size=5)
SPANS = some.tuples(TIMES | some.none(), TIMES | some.none()).map(
    lambda two: dict(zip(("since", "until"), two, strict=True))
)


# Health messages of a journal that two files have mixed.
COUNTED = {"counters": {"accepted": 1, "dropped": 0}}
MIXED = [message("attic", 7, seq, "health", AT + 60 * seq, COUNTED) for seq in range(4)]


@settings(
    max_examples=40 if PIPELINE else 8 if THOROUGH else 1,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(HISTORIES, SPANS)
@example([(MIXED[::2], "report"), (MIXED[1::2], "report")], {})
def test_summaries_change_no_figure(history, span):
    with tempfile.TemporaryDirectory() as folder:
        fleet, alone = Fleet(Path(folder)), Path(folder, "alone", "tables")
        for rows, step in history:
            fleet.batch(rows)
            if step == "report":
                figures(fleet.root)
            elif step == "merge":
                fleet.merge()
            elif step == "forget":
                fleet.forget(AT + HOUR)
        found, of_a_time = figures(fleet.root), figures(fleet.root, **span)
        shutil.copytree(fleet.root, alone, ignore=shutil.ignore_patterns(FOLDER))
        Fleet(alone.parent).merge()  # each table is one file, so no summaries are added up
        assert figures(alone) == found
        assert figures(alone, **span) == of_a_time


def packs(numbers, device="attic"):
    return [message(device, 7, seq, "telemetry", AT + 60 * seq) for seq in numbers]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Number 5 is lost, 3 came twice, in two files and with different contents. Returns (a folder with the tables and
    their summaries, the figures)."""
    fleet = Fleet(tmp_path_factory.mktemp("whole"))
    fleet.batch(packs(range(5)))
    fleet.batch([*packs([6, 7]), message("attic", 7, 3, "telemetry", AT + 600, {"other": 1})])
    fleet.batch([marker(AT + 2 * HOUR, AT + 2 * HOUR)])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(summaries, "FEW", 0)
        found = figures(fleet.root)
    assert (found["fleet"]["lost"], found["fleet"]["conflicts"], found["fleet"]["repeated"]) == (1, 1, 1)
    return fleet.root, found


@pytest.fixture
def root(whole, tmp_path):
    """A copy of these tables."""
    return shutil.copytree(whole[0], tmp_path / "tables")


@pytest.fixture
def found(whole):
    return whole[1]


def spoil(path):
    """Changes the first quarter of a file, behind its first bytes."""
    data = path.read_bytes()
    part = len(data) // 4
    path.write_bytes(data[:4] + bytes(byte ^ 0x55 for byte in data[4:part]) + data[part:])


DAMAGE = {
    "torn": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "spoiled": spoil,
    "missing": Path.unlink,
    "of another version": lambda path: path.replace(path.with_name(f"{'0' * 16}-{'0' * 16}-{'0' * 8}.duckdb")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_of_summaries_is_made_again(root, found, damage):
    for path in (root / FOLDER).iterdir():
        DAMAGE[damage](path)
    assert figures(root) == found
    kept = {path: path.stat().st_mtime_ns for path in (root / FOLDER).iterdir()}
    assert figures(root) == found
    assert kept == {path: path.stat().st_mtime_ns for path in (root / FOLDER).iterdir()}


def test_nothing_can_be_written_beside_the_tables(root, found):
    shutil.rmtree(root / FOLDER)
    (root / FOLDER).write_bytes(b"")
    assert figures(root) == found


def test_a_disk_without_space(root, found):
    shutil.rmtree(root / FOLDER)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        assert figures(root) == found
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list((root / FOLDER).iterdir())


def test_reports_at_once(root, found):
    shutil.rmtree(root / FOLDER)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        assert all(one == found for one in threads.map(lambda _: figures(root), range(2)))
    assert figures(root) == found


def test_what_is_kept_is_not_read_again(root, found):
    for path in (root / "raw").glob("**/*.parquet"):
        spoil(path)
    assert figures(root) == found
    shutil.rmtree(root / FOLDER)
    with pytest.raises((WrongTables, duckdb.Error)):
        figures(root)


def test_kept_files_stay_few(tmp_path):
    fleet = Fleet(tmp_path)
    batches = 12 if PIPELINE else 6
    for seq in range(batches):
        fleet.batch(packs([seq]))
        figures(fleet.root)
    assert len(list((fleet.root / FOLDER).iterdir())) <= batches.bit_length()  # like the digits of a binary number


def test_of_small_tables_nothing_is_kept(root, found, monkeypatch):
    shutil.rmtree(root / FOLDER)
    monkeypatch.undo()
    assert figures(root) == found and not (root / FOLDER).exists()
