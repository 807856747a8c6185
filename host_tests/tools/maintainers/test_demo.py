"""The demonstration's counters, and the failures that it reports; test_pipeline.py has a small run."""

import io
from collections import Counter
from types import SimpleNamespace

import pytest
from rich.console import Console

from tools.demo.__main__ import _NONE, check_tables, result

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
GOOD = {("s1", 0): 2, ("s1", 1): 1}  # deliveries of message 0, of QoS 1, and of message 1, of QoS 2


@pytest.mark.parametrize(
    "problem, seen, odd",
    [
        (None, GOOD, {}),
        ("1 messages of QoS 2 lost", {("s1", 0): 1}, {}),
        ("1 messages of QoS 1 lost", {("s1", 1): 1}, {}),
        ("1 messages of QoS 2 came twice", GOOD | {("s1", 1): 2}, {}),
        ("nothing was accepted", {}, {"accepted": set()}),
        ("a sensor exited unexpectedly: see its console.log", GOOD, {"deaths": 1}),
        ("a sensor lost its journal", GOOD, {"epochs": {"s1": {9, 10}}}),
        ("1 messages cannot be read, the first: ('t', b'?')", GOOD, {"unreadable": [("t", b"?")]}),
    ],
)
def test_problems_of_a_run(problem, seen, odd):
    fleet = SimpleNamespace(cuts=1, deaths=odd.get("deaths", 0))
    network = SimpleNamespace(cuts=1, repeated=Counter())
    subscriber = SimpleNamespace(
        counts=lambda: Counter(seen), unreadable=odd.get("unreadable", []), epochs=odd.get("epochs", {"s1": {9}})
    )
    accepted = odd.get("accepted", {("s1", 0, 1), ("s1", 1, 2)})
    found = result(Console(file=io.StringIO()), accepted, fleet, network, subscriber, 2)
    assert found == ([problem] if problem else [])


RAW = [
    ("s1", 0, "telemetry", True),
    ("s1", 1, "health", True),
    ("s1", 1, "health", False),
    ("s1", None, "status", True),  # a will
]
ROWS = [("s1", 0, 0), ("s1", 0, 1)]


@pytest.mark.parametrize(
    "problem, raw, rows, fleet",
    [
        (None, RAW, ROWS, {}),
        ("1 messages that a device accepted have no row", RAW[:1], ROWS, {}),
        ("1 messages have two rows", RAW + RAW[:1], ROWS, {}),
        ("1 measurements have two rows", RAW, ROWS + ROWS[:1], {}),
        ("1 packs have no measurements", RAW, [], {}),
        ("1 messages that the report does not count", RAW, ROWS, {"delivered": 1}),
        ("2 numbers before the report's first message", RAW, ROWS, {"before": 2}),
        ("1 lost in the report", RAW, ROWS, {"lost": 1}),
    ],
)
def test_problems_of_the_tables(problem, raw, rows, fleet):
    """s1 has accepted messages 0 and 1."""
    facts = {"fleet": dict.fromkeys((*_NONE, "before"), 0) | {"delivered": 2} | fleet}
    raw = [dict(zip(("device", "seq", "kind", "first"), row, strict=True)) for row in raw]
    rows = [dict(zip(("device", "seq", "place"), row, strict=True)) for row in rows]
    assert check_tables({("s1", 0, 1), ("s1", 1, 2)}, facts, raw, rows) == ([problem] if problem else [])
