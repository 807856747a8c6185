"""Lines of gathered readings: the same rows as those of one message for each."""

import json

import pyarrow as pa
import pytest

from inflight_tools.fleet.lines.gathered import expanded
from inflight_tools.fleet.lines.reader import reader
from inflight_tools.fleet.lines.rows import SCHEMA

LINE = {"at": 1790000500000, "by": "c", "topic": "inflight/attic/telemetry", "qos": 1, "dup": False, "retain": False}
BODY = {
    "bt": 1790000000,
    "seq": 7,
    "epoch": 9,
    "n": ["t", "door", "state"],
    "u": ["Cel", None, None],
    "rows": [[0, 21.5, True, "a"], [10, None, False, "b"], [20.5, -3, None, None]],
}


def line(body, **changes):
    return json.dumps(
        LINE | changes | {"text": json.dumps(body, separators=(",", ":"))}, separators=(",", ":")
    ).encode()


def rows(*lines):
    """As a Spark worker reads them."""
    batch = pa.RecordBatch.from_arrays([pa.array(lines, pa.binary())], ["value"])
    found = pa.Table.from_batches([one.select(SCHEMA.names) for one in reader("inflight")([batch])])
    return sorted(found.to_pylist(), key=lambda row: (row["seq"] is None, row["seq"]))


def test_each_row_is_the_message_that_it_replaces():
    head = {"bn": "urn:dev:mac:attic:", "bt": 1790000000, "seq": 7, "epoch": 9}
    singly = [
        [head | {"n": "t", "u": "Cel", "v": 21.5}, {"n": "door", "vb": True}, {"n": "state", "vs": "a"}],
        [head | {"bt": 1790000010, "seq": 8, "n": "door", "vb": False}, {"n": "state", "vs": "b"}],
        [head | {"bt": 1790000020.5, "seq": 9, "n": "t", "u": "Cel", "v": -3}],
    ]
    assert expanded(line(BODY)) == [line(pack) for pack in singly]
    assert rows(line(BODY)) == rows(*map(line, singly))
    assert [row["seq"] for row in rows(line(BODY))] == [7, 8, 9]


def test_rows_without_a_time_have_the_uptime():
    found = rows(line(BODY | {"bt": 0, "up": 81.25}))
    assert [row["up"] for row in found] == [81.25, 91.25, 101.75]
    assert all(row["made"] is None and row["problem"] is None for row in found)


def test_a_message_and_the_longer_one_that_replaced_it_have_the_same_rows():
    """A power cut may leave both."""
    shorter = line(BODY | {"rows": BODY["rows"][:2]})
    assert expanded(line(BODY))[:2] == expanded(shorter)


def test_other_lines_stay():
    pack = line([{"bn": "urn:dev:mac:attic:", "bt": 0, "seq": 1, "epoch": 9, "n": "t", "v": 1}])
    assert expanded(pack) == [pack] and [row["seq"] for row in rows(pack, line(BODY))] == [1, 7, 8, 9]


WRONG = [
    *({name: value} for name in ("n", "u", "rows") for value in (None, [], 3, "x")),
    *({"rows": [row]} for row in (1, [], [0], [0, 1], [True, 1, 2, 3], ["0", 1, 2, 3], [0, 1, 2, 3, 4])),
    {"bt": "x"},
    {"up": []},
    {"seq": "7"},
    {"rows": [[0, 1, 2, 3]] * 1001},
    {"n": ["t", "door", 3 * 10_000 * "x"], "rows": [[0, 1, 2, 3]] * 900},
    {"n": [1, 2, 3]},
]


@pytest.mark.parametrize("change", WRONG, ids=lambda change: str(change)[:30])
def test_one_that_cannot_be_read_is_a_dead_letter(change):
    (row,) = rows(line(BODY | change))
    assert row["problem"] and row["payload"]


@pytest.mark.parametrize("text", ['{"bt":', '{"bt":1', '{"bt":1}', '{"bt":[' * 5000], ids=lambda text: text[:9])
def test_broken_json_is_a_dead_letter(text):
    broken = json.dumps(LINE | {"text": text}, separators=(",", ":")).encode()
    (row,) = rows(broken)
    assert row["problem"]


def test_elsewhere_it_is_what_it_was():
    other = line(BODY, topic="inflight/attic/health")
    assert expanded(other) == [other]
