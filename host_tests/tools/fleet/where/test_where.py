"""`inflight fleet where`: the way of a message. The places of missing ones: query/test_missing.py."""

import functools
import json

import pytest

from host_tests.tools.fleet.tables import landed
from inflight_tools.fleet.where.command import ELSEWHERE


@pytest.fixture
def where(run):
    """where(device, number, ...) returns (exit status, standard output, standard error) of the command."""
    return functools.partial(run, "where")


def land(folder, name, *lines):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"".join(lines))


@pytest.mark.parametrize("name", ["c-1-000001.ndjson", ".c-1-000001.spool"])
def test_a_message_that_has_landed_is_not_missing(tables, where, tmp_path, name):
    for seq in (0, 2):
        tables.add("attic", seq, oldest=seq)
    tables.marker(60, 61)
    tables.write()
    land(tmp_path / "landing", name, landed(1, 9))
    status, output, _ = where("attic", 1)
    assert status == ELSEWHERE
    assert f"2025-10-09 08:53:29 UTC, in {tmp_path}/landing/{name}" in output


def test_the_way_of_a_message_that_was_delivered_twice(tables, where, tmp_path):
    tables.add("attic", 0, 5, 0)
    tables.add("attic", 0, 7, 0, first=False)
    tables.add("attic", 1, 9, 1, problem="not UTF-8")
    tables.write()
    land(tmp_path / "tables/landed/landing", "c-1-000001.ndjson", landed(0, 5), landed(0, 7))
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
