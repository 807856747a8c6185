"""Whatever one device sends, the report and the export are made, and tell of another device what they tell without the
first one."""

import functools
import json
import math
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as some

from host_tests.thorough import PIPELINE, THOROUGH
from host_tests.tools.fleet.tables import AT
from host_tests.tools.fleet.without_spark import Fleet, row
from inflight_tools.fleet.query import views
from inflight_tools.fleet.query.database import Database
from inflight_tools.fleet.query.export import write as export
from inflight_tools.fleet.query.facts import gather
from inflight_tools.fleet.report import render

NOW = AT + 4000
HUGE = (1 << 63) - 1
# What tables may have: the bound of 1e100 is younger than they are.
VALUES = some.sampled_from(
    [5e-324, -5e-324, 1.7e308, -1.7e308, math.inf, -math.inf, math.nan, 1e100, -0.0, 1e-100, 21.5]
)
COUNTS = some.sampled_from([0, 1, -1, 7, 1 << 32, HUGE, -HUGE - 1]) | some.integers(-HUGE - 1, HUGE)
TEXTS = some.sampled_from(
    ["", "'", '"; --', "</script><script>alert(1)</script>", "\x00\x1b[2J", "x" * 3000, "{}%s", "../.."]
)
TEXTS |= some.text(some.characters(exclude_categories=["Cs"]), max_size=20)
DEVICES = TEXTS.filter(lambda name: name not in ("", "good") and not set(name) & set("/+#\0"))
LAST = 253_402_300_799  # of the year 9999
TIMES = some.sampled_from([0, AT, AT + 30, AT - 400 * 86_400, NOW + 86_400, LAST]) | some.integers(0, LAST)
NUMBERS = some.sampled_from([0, 1, 2, 5, (1 << 32) - 1])
MEASURED = some.lists(some.tuples(TEXTS, TEXTS, VALUES | some.floats(), TIMES), max_size=6)
JOURNAL = ("live", "used", "limit", "erases", "damaged", "skipped")
COUNTED = ("accepted", "dropped", "damaged", "resent", "outages")
HEALTH = some.fixed_dictionaries(
    {"counters": some.fixed_dictionaries(dict.fromkeys(COUNTED, COUNTS)), "firmware": TEXTS, "reset": TEXTS},
    optional={
        **dict.fromkeys(("up", "heap", "rssi", "outbox_full"), COUNTS),
        "journal": some.fixed_dictionaries({}, optional=dict.fromkeys(JOURNAL, COUNTS)),
        "errors": some.dictionaries(TEXTS, TEXTS, max_size=3),
    },
)
STATUS = some.fixed_dictionaries({"state": TEXTS}, optional={"next_s": some.integers(0, (1 << 32) - 1)})
MESSAGES = some.tuples(TIMES, NUMBERS, NUMBERS, some.just("health"), HEALTH)
MESSAGES |= some.tuples(TIMES, NUMBERS, NUMBERS, some.just("status"), STATUS)
GOOD = [(AT + 10 * n, 7, n, "status", {"state": "online", "oldest": n}) for n in (0, 1, 3)]
GOOD += [(AT + 40, 7, 4, "health", {"counters": {"accepted": 5, "dropped": 0}, "heap": 70_000, "firmware": "1"})]
SERIES = [("good", "temperature", "Cel", 20.0 + n, AT + 60 * n) for n in range(3)]


def parsed(device, at, epoch, seq, kind, body):
    """The row of a delivery as the pipeline reads it."""
    return row(f"{device}/{kind}", {**body, "epoch": epoch, "seq": seq}, at)


def told(folder, rows, measured):
    """What is told of the device "good": its figures, and those of its measurements and its health over time."""
    fleet = Fleet(folder)
    times = [(at * 1_000_000, AT * 1_000_000) for *_, at in measured]
    fleet.batch(
        rows,
        [
            dict(zip(("device", "name", "unit", "value"), one, strict=False))
            | {"epoch": 7, "seq": 0, "place": place, "time": time, "received": received}
            for place, (one, (time, received)) in enumerate(zip(measured, times, strict=True))
        ],
    )
    root = fleet.root
    facts = gather(root, "inflight", chosen=["good"], now=float(NOW))
    json.dumps(facts, allow_nan=False)
    render(facts).encode()
    with Database(root) as database:
        views.judge(database, float(NOW), 3600)
        export(database, str(root / "out"))
    (found,) = [one for one in facts["devices"] if one["device"] == "good"]
    series = facts["measurements"]["good"] + facts["trends"]["good"]
    return found, [{name: value for name, value in one.items() if name != "points"} for one in series]


MARKER = row("c/collector", {"sent": 1000 * (AT + 2999)}, AT + 3000)


@functools.cache
def without():
    """What is told of the device "good" if there is no other one."""
    with tempfile.TemporaryDirectory() as folder:
        return told(Path(folder), [*(parsed("good", *one) for one in GOOD), MARKER], SERIES)


# By name of a series. Sums of some overflow, others are none.
EXTREMES = {"tiny": [5e-324], "huge": [1.7e308, -1.7e308], "none": [math.nan, math.inf], "less": [-math.inf]}
WRONG = [(AT + n, n, 0, "health", {"counters": {"accepted": 1, "dropped": HUGE}}) for n in (1, 2)]
WRONG += [(AT, 3, 0, "health", {"counters": {"accepted": 1, "dropped": -HUGE, "damaged": HUGE}})]
WRONG += [(AT, 4, 0, "status", {"state": "online", "board": {"a": [1]}, "safe": "maybe"})]


@settings(
    max_examples=200 if PIPELINE else 10 if THOROUGH else 3,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not PIPELINE,
)
@given(DEVICES, some.lists(MESSAGES, max_size=6), MEASURED)
@example(
    "evil",
    WRONG,
    [(name, "V", value, AT + 60 * n) for name, values in EXTREMES.items() for n, value in enumerate(values)],
)
@example("evil", [], [("t", "V", 1.0, AT)] * 104)  # one message has so many records
def test_one_device_cannot_spoil_the_report(device, messages, measured):
    good = [parsed("good", *one) for one in GOOD]
    evil = [parsed(device, *one) for one in messages]
    with tempfile.TemporaryDirectory() as folder:
        measured = [(device, *one) for one in measured]
        assert told(Path(folder), [*good, *evil, MARKER], SERIES + measured) == without()
