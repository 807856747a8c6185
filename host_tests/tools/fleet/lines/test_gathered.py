"""Lines of gathered readings: the same rows as those of one message for each."""

import json

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from host_tests.thorough import THOROUGH
from inflight_tools.fleet.lines import reader as reading
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
    text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))
    return json.dumps(LINE | changes | {"text": text}, separators=(",", ":")).encode()


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


def test_other_lines_stay():
    pack = line([{"bn": "urn:dev:mac:attic:", "bt": 0, "seq": 1, "epoch": 9, "n": "t", "v": 1}])
    assert expanded(pack) == [pack] and [row["seq"] for row in rows(pack, line(BODY))] == [1, 7, 8, 9]
    elsewhere = line(BODY, topic="inflight/attic/health")
    assert expanded(elsewhere) == [elsewhere]


WRONG = [
    *({name: value} for name in ("n", "u", "rows") for value in (None, [], 3, "x")),
    *({"rows": [row]} for row in (1, [], [0], [0, 1], [True, 1, 2, 3], ["0", 1, 2, 3], [0, 1, 2, 3, 4])),
    {"bt": "x"},
    {"up": []},
    {"seq": "7"},
    {"rows": [[0, 1, 2, 3]] * 1001},
    {"n": ["t", "door", 3 * 10_000 * "x"], "rows": [[0, 1, 2, 3]] * 900},
    {"n": [1, 2, 3]},
    *('{"bt":', '{"bt":1', '{"bt":1}', '{"bt":[' * 5000),  # in place of the whole
]


@pytest.mark.parametrize("change", WRONG, ids=lambda change: str(change)[:30])
def test_one_that_cannot_be_read_is_a_dead_letter(change):
    (row,) = rows(line(change if isinstance(change, str) else BODY | change))
    assert row["problem"] and row["payload"]


LONG = some.sampled_from([1, 60, 8000, 50_000])
PAIRS = {"user_properties": [["k", 60_000 * "v"]]}


@settings(max_examples=200 if THOROUGH else 15, deadline=None, derandomize=not THOROUGH)
@given(LONG, LONG, LONG, some.sampled_from([1, 70, 1000, 1001]), some.booleans(), some.booleans())
@example(1, 1, 50_000, 1000, True, False)
@example(1, 50_000, 1, 1000, True, False)
@example(1, 50_000, 1, 1000, False, False)
@example(50_000, 1, 1, 1000, False, True)
def test_no_line_becomes_much_more_than_it_is(name, base, device, many, gathered, properties):
    """Whatever a name, a unit, a topic and properties stand in."""
    more = {"topic": f"inflight/{device * 'd'}/telemetry"} | ({"properties": PAIRS} if properties else {})
    if gathered:
        body = BODY | {"n": [name * "n"], "u": [base * "u"], "rows": [[0, 1]] * many}
    else:
        body = [{"bn": base * "b", "bu": name * "u", "seq": 1, "epoch": 9}] + [{"v": 1}] * many
    sent = line(body, **more)
    found = [*reader("inflight")([pa.RecordBatch.from_arrays([pa.array([sent], pa.binary())], ["value"])])]
    records = sum(len(row["records"] or ()) for batch in found for row in batch.to_pylist())
    assert sum(batch.num_rows for batch in found) <= 1000 and records <= 1000
    # Beside what the line says: the columns of a row, and of a record; Arrow keeps twice what it has, at most.
    assert sum(batch.nbytes for batch in found) <= 20 * len(sent) + 2048 * many


def test_a_line_that_does_not_fit_the_columns_is_a_dead_letter(monkeypatch):
    """Whatever it is: the others go on, and no landing file stops the tables for ever."""
    parse = reading.parse
    monkeypatch.setattr(
        reading, "parse", lambda line, topics: parse(line, topics) | ({"qos": 1 << 40} if b"bad" in line else {})
    )
    found = rows(line({"bad": 1}), line([1]), line({"bad": 2}), line([2]))
    assert sorted(row["problem"][:14] for row in found) == ["cannot be read"] * 2 + ["record 0: not "] * 2
