"""Tables are continued only if no batch number is used again."""

import json
import shutil

import pytest

from host_tests.tools.fleet.without_spark import telemetry
from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.spark.guard import advice


@pytest.fixture(scope="module")
def begun_once(common_fleet):
    """A fleet whose tables have one batch, of message 0."""
    common_fleet.land(telemetry("attic", 0))
    common_fleet.run()
    return common_fleet


@pytest.fixture
def begun(fleet, begun_once):
    """A copy of it."""
    return fleet.begin_as(begun_once)


def rewrite(file, text):
    """Changes a file of Hadoop's, which has a checksum beside it."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_text(text)


def notes(fleet, **changes):
    """Changes pipeline.json."""
    file = fleet.root / "pipeline.json"
    rewrite(file, json.dumps(json.loads(file.read_text()) | changes))


def expect_all(fleet, n):
    """Numbers 0 to n - 1 are in the tables, once."""
    assert fleet.numbers() == fleet.numbers("measurements", "true") == [("attic", 7, i) for i in range(n)]
    assert fleet.count("minutes", "sum(count)") == n


def newest(log):
    """The last commit of a table."""
    return max(log.glob("*.json"))


def refused(fleet, words):
    """Runs the query, which must refuse the tables. Returns the error's text."""
    with pytest.raises(WrongTables, match=words) as found:
        fleet.run()
    return str(found.value)


def test_tables_without_their_checkpoint_are_refused_and_can_be_continued(begun):
    """Batch 1 is incomplete: the driver was killed before it had written the ledger."""
    fleet = begun
    fleet.land(telemetry("attic", 1), telemetry("attic", 2))
    fleet.run()
    newest(fleet.root / "ledger/_delta_log").unlink()
    shutil.rmtree(fleet.root / "_checkpoint")
    fleet.land(*[telemetry("attic", n) for n in range(4)])
    refused(fleet, "have batches up to 1, but their checkpoint is missing: restore .*, or continue with --new-check")
    fleet.run(new_checkpoint=True)
    expect_all(fleet, 4)
    fleet.land(telemetry("attic", 4))
    fleet.run()
    expect_all(fleet, 5)


def test_an_older_checkpoint_is_continued_from_the_landing_files(begun):
    fleet = begun
    older = shutil.copytree(fleet.root / "_checkpoint", fleet.root / "older")
    for n in (1, 2):
        fleet.land(telemetry("attic", n))
        fleet.run()
    lost = fleet.root / f"landed{fleet.landing}/000002.ndjson"  # the last one moves with the next batch
    shutil.rmtree(fleet.root / "_checkpoint")
    shutil.copytree(older, fleet.root / "_checkpoint")
    kept = lost.rename(lost.with_suffix(".away"))
    refused(fleet, "lack rows .* behind 0, .* landing files 1 are not in .*000002.ndjson: restore them")
    kept.rename(lost)
    fleet.run()
    expect_all(fleet, 3)


@pytest.mark.long("INFLIGHT_TOOLS")
def test_rows_that_cannot_be_repaired_are_given_up_by_a_new_checkpoint(begun):
    fleet = begun
    for n in (1, 2):
        fleet.land(telemetry("attic", n))
        fleet.run()
    (fleet.root / f"landed{fleet.landing}/000002.ndjson").unlink()
    newest(fleet.root / "raw/_delta_log").unlink()
    newest(fleet.root / "raw/_delta_log").write_text("")
    refused(fleet, "lack rows of the batches behind 0, .* or continue without these rows with --new-checkpoint")
    fleet.run(new_checkpoint=True)
    assert fleet.numbers() == [("attic", 7, 0)] and fleet.facts()["differences"] == []
    fleet.land(telemetry("attic", 3))
    fleet.run()
    assert fleet.numbers() == [("attic", 7, 0), ("attic", 7, 3)] and fleet.facts()["differences"] == []


@pytest.mark.long("INFLIGHT_TOOLS")
def test_an_empty_note_beside_the_tables(fleet):
    """A driver that was killed at its first start may have left it."""
    note = fleet.root / "pipeline.json"
    fleet.root.mkdir()
    note.touch()
    fleet.land(telemetry("attic", 0))
    fleet.run()
    rewrite(note, "{}")
    refused(fleet, "pipeline.json is missing or damaged: restore it, or, .*--new-checkpoint")
    for text in ("", "[", "[]"):
        rewrite(note, text)
        refused(fleet, "pipeline.json is missing or damaged: ")
    fleet.land(telemetry("attic", 1))
    fleet.run(new_checkpoint=True)
    expect_all(fleet, 2)


@pytest.mark.long("INFLIGHT_TOOLS")
def test_a_checkpoint_of_another_spark_is_tried(begun, spark):
    fleet = begun
    assert advice(spark, fleet.root) == ""
    notes(fleet, spark="3.5.1")
    fleet.land(telemetry("attic", 1))
    fleet.run()
    expect_all(fleet, 2)
    for offsets in (fleet.root / "_checkpoint/offsets").glob("[0-9]*"):
        rewrite(offsets, offsets.read_text().replace("v1", "v9"))
    fleet.land(telemetry("attic", 2))
    with pytest.raises(Exception, match="v9"):
        fleet.run()
    said = f"Spark 3.5.1 began the checkpoint, this is {spark.version}: use that one, or --new-checkpoint; "
    assert advice(spark, fleet.root) == said
    fleet.run(new_checkpoint=True)
    expect_all(fleet, 3)
    assert advice(spark, fleet.root) == ""


@pytest.mark.long("INFLIGHT_TOOLS")
def test_tables_of_another_format_can_be_made_again_as_the_error_says(fleet):
    for n in range(2):
        fleet.land(telemetry("attic", n))
        fleet.run()
    notes(fleet, format=2)
    words = refused(fleet, "are of format 2, this is 3: use the version that wrote them, or make new ones")
    landed = words.split("move the files in ")[1].split(" back to ")[0]
    old = fleet.root.rename(fleet.root.with_name("old"))
    for file in (old / landed[len(str(fleet.root)) + 1 :]).iterdir():
        file.rename(fleet.landing / file.name)
    fleet.run()
    expect_all(fleet, 2)


def test_tables_of_another_fleet_or_format_are_refused(begun):
    notes(begun, topics="elsewhere")
    refused(begun, "are of --root elsewhere, this is inflight: give that one, or other tables")
    notes(begun, topics="inflight", format=2)
    refused(begun, "are of format 2, this is 3: use the version that wrote them, or make new ones")
