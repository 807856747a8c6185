"""Whatever landing files hold, every reader of their tables ends, and tells what an independent reader counts.

`make test-pipeline ARGS="-k hostile_tables"` tries more."""

import contextlib
import json
import math
import re
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as some
from prometheus_client.parser import text_string_to_metric_families

from host_tests.thorough import PIPELINE, THOROUGH
from host_tests.tools import command
from host_tests.tools.fleet.console.served import Served
from host_tests.tools.fleet.tables import AT
from host_tests.tools.fleet.without_spark import Fleet, delivery, exported
from inflight_tools.fleet.console.access import Access
from inflight_tools.fleet.query.follow import FORMS

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
LAST = 253_402_300_799  # of the year 9999
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
# What every fleet has beside: number 2 is lost, whatever the others send.
GOOD = [("status", {"seq": n, "epoch": 7, "state": "online", "oldest": n}) for n in (0, 1, 3)]
GOOD += [("health", {"seq": 4, "epoch": 7, "counters": {"accepted": 5, "dropped": 0}, "firmware": "1"})]
OF_GOOD = {"accepted": 5, "delivered": 4, "lost": 1, "given_up": 0, "restarts": 0, "firmware": "1", "conflicts": 0}
POWERS = some.sampled_from(sorted({(1 << n) + more for n in range(64) for more in (-1, 0, 1)}))
NUMBER = POWERS | some.floats()
KINDS = [*("telemetry",) * 5, "health", "status", "log", "release", "reply/x", "collector", "elsewhere"]
BODY = some.fixed_dictionaries({"state": some.sampled_from(["fetch", "offline", "online"]), "release": NUMBER | TEXTS})
BODY |= some.fixed_dictionaries({"lines": some.lists(NUMBER | TEXTS, max_size=3)}) | HEALTH | STATUS
NUMBERS_OF = "bt t s bs up oldest next_s board sent run n".split()
LAST_MS = 1000 * LAST + 998
LINES = some.fixed_dictionaries(
    {
        "at": some.sampled_from([1000 * AT + n for n in range(30)] + [0, LAST_MS, LAST_MS + 2]) | POWERS,
        "by": some.sampled_from("cd"),
        "device": some.sampled_from(["c", "d", "c", "é{}%s", "'; --", "x" * 128, "x" * 129]),
        "kind": some.sampled_from(KINDS),
        "numbers": some.tuples(some.sampled_from([0, *[7] * 9, 1 << 31, 1 << 32]), some.integers(0, 9) | POWERS)
        | some.sampled_from([(7, 0), (7, 1), ()]),
        "records": some.sampled_from([0, 1, 62, 63, 64, 65, 104, 999, 1000]) | some.integers(0, 9),
        "value": NUMBER | VALUES | TEXTS | some.booleans(),
        "body": BODY,
        "more": some.dictionaries(some.sampled_from(NUMBERS_OF), NUMBER, max_size=2),
        "expiry": some.sampled_from([*[None] * 9, 0, (1 << 32) - 1, 1 << 32]),
        "fields": some.sampled_from([*[{"retain": False}] * 7, {"retain": True}, {"text": None}]),
        "times": some.integers(1, 3),
        "torn": some.sampled_from([*[False] * 9, True]),
    }
)

PLAIN = {"at": 1000 * AT, "by": "c", "device": "c", "kind": "telemetry", "numbers": (7, 0), "records": 1, "value": 1}
PLAIN |= {"body": {}, "more": {}, "expiry": None, "fields": {"retain": False}, "times": 2, "torn": False}
BATCHES = some.lists(some.lists(LINES, min_size=1, max_size=5), min_size=1, max_size=3)
LEAST = PLAIN | {"numbers": (0, 0), "records": 0, "times": 1}
LARGE = [[PLAIN | {"records": n, "numbers": (7, n)} for n in (62, 64, 104, 1000)], [PLAIN, LEAST]]
GENERATED = [Phase.reuse, Phase.generate] if PIPELINE or THOROUGH else []  # each try takes seconds
FEW = settings(
    max_examples=200 if PIPELINE else 3,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, *GENERATED],
    derandomize=not PIPELINE,
)


def is_whole(told, name, least, end):
    return name not in told or isinstance(told[name], int) and least <= told[name] < end


def right(one, at):
    """The text of a message that was received at that time, and what is right of it: the measurements, how many of them
    are numbers, and whether it is a dead letter."""
    kind, value, numbers = one["kind"], one["value"], one["numbers"]
    told = dict(zip(("epoch", "seq"), numbers, strict=False)) | one["more"]
    if kind != "telemetry":
        told = one["body"] | told
        good = is_whole(told, "oldest", 0, 1 + numbers[1] if numbers else 0)
        good &= kind != "health" or is_whole(told, "up", -HUGE - 1, HUGE + 1)
        good &= kind != "status" or is_whole(told, "next_s", -(1 << 32), 1 << 32)
        good &= bool(numbers) or (kind, told.get("state")) == ("status", "offline")
        if kind == "collector":
            good = one["device"] == one["by"] and "sent" in told and is_whole(told, "sent", 0, at + 1)
        return json.dumps(told), 0, 0, not good
    sums, form = [told[name] for name in ("s", "bs") if name in told], {bool: "vb", str: "vs"}.get(type(value), "v")
    records = [{"n": f"t{n}", form: value} for n in range(one["records"])] or [{"n": "t"} if sums else {"bn": "t"}]
    records[0] = {name: n for name, n in told.items() if name != "n"} | records[0]
    many = len(records) if one["records"] or sums else 0
    fits = all(abs(n) <= 1e100 for n in (*sums, sum(sums)))
    good = 0 if form == "v" and one["records"] and abs(value) > 1e100 else many - (not fits)
    wrong = good < many or not 0 <= told.get("up", 0) < 1e10 or not numbers
    return json.dumps(records), good, good * (form == "v" and one["records"] > 0), wrong


def land(fleet, batches):
    """Writes messages into tables, batch by batch. Returns how many deliveries, dead letters and measurements that are
    numbers there are, {device: Counter}, and the messages that have a number: what an independent reader counts."""
    known, total, devices = {}, Counter(), {}
    fleet.land(*(delivery(f"good/{kind}", body, 1000 * AT + 10 * n) for n, (kind, body) in enumerate(GOOD)))
    fleet.run()
    for batch in batches:
        found = []
        for one in batch:
            for again in range(one["times"]):
                at = one["at"] + again
                text, good, numbers, dead = right(one, at)
                whole = {"at": at, "by": one["by"], "topic": f"inflight/{one['device']}/{one['kind']}", "qos": 1}
                whole |= {"dup": again > 0, "text": text} | one["fields"]
                whole = json.dumps(whole | ({} if one["expiry"] is None else {"properties": {"expiry": one["expiry"]}}))
                fleet.land((whole[: len(whole) // 2] if one["torn"] else whole) + "\n")
                readable = not one["torn"] and at <= LAST_MS and "text" not in one["fields"]
                readable &= (one["expiry"] or 0) < 1 << 32 and len(one["device"]) < 129
                device = one["device"] if readable else None
                readable &= one["kind"] != "elsewhere" and not re.search("NaN|Infinity", text) and len(text) <= 65536
                readable &= max(one["numbers"], default=0) < 1 << 32
                key = (device, *one["numbers"]) if readable and one["numbers"] and one["kind"] != "collector" else None
                found.append(((at, again), key, device, text, good, numbers, dead or not readable))
        fleet.run()
        for _, key, device, text, good, numbers, dead in sorted(found, key=lambda row: row[0]):
            total["deliveries"] += 1
            mine = devices.setdefault(device, Counter())
            if key in known:
                mine["repeated"] += 1
                mine["conflicts"] += text not in known[key]
                known[key].add(text)
                continue
            mine["dead_letters"] += dead
            total["dead_letters"] += dead
            if key:
                known[key] = {text}
                mine += Counter(delivered=1, measurements=good)
                total["numbers"] += numbers
    total["deliveries"] += len(GOOD)
    devices["good"] = Counter(delivered=len(GOOD))
    return total, {name: counted for name, counted in devices.items() if name and any(counted.values())}, known


FIGURES = ("delivered", "repeated", "measurements", "conflicts", "dead_letters")


def ask(folder, *words, allowed=(0,)):
    """What a command prints."""
    status, output, error = command.fleet(folder, *words)
    assert status in allowed and "FAILED" not in error, (words, status, error)
    return output


def look(folder, total, devices, known):
    """Every reader ends, and tells what an independent one counts."""
    facts = json.loads(ask(folder, "report", "--json", "--device", "good"))
    check, names = json.loads(ask(folder, "check", "--json", allowed=(0, 1))), ("lost", "given_up", "conflicts")
    told = {one["device"]: +Counter({name: one[name] for name in FIGURES}) for one in facts["devices"]}
    assert told == devices and facts["fleet"]["doubled"] == 0
    (good,) = [one for one in facts["devices"] if one["device"] == "good"]
    assert OF_GOOD.items() <= good.items()
    assert facts["fleet"]["dead_letters"] == check["dead_letters"] == total["dead_letters"]
    assert [check[name] for name in names] == [facts["fleet"][name] for name in names]
    ask(folder, "export", folder / "out")
    days = [one["count"] for one in exported(folder / "out/aggregates") if one["size"] == "day"]
    assert sum(days) == total["numbers"] and {one["device"] for one in exported(folder / "out/devices")} == set(devices)
    for device, epoch, seq in list(known)[:1]:
        ask(folder, "where", "--epoch", epoch, device, seq)
        after = min(seq + 1, (1 << 32) - 1)
        ask(folder, "where", "--epoch", epoch, device, after, allowed=[0 if (device, epoch, after) in known else 3])
    with contextlib.closing(Served(folder, Access("127.0.0.1"))) as console:
        metrics = text_string_to_metric_families(console.get("/metrics")[2])
        letters = [one.value for family in metrics for one in family.samples if one.name.endswith("_dead_letters")]
        assert sum(letters) == total["dead_letters"]
        for device in list(devices)[:1]:
            assert [console.get()[0], console.device(device, message=1)[0]] == [200, 200]
    return facts["fleet"]


@FEW
@pytest.mark.timeout(7200)  # with INFLIGHT_PIPELINE, on a busy machine
@given(BATCHES, some.lists(VALUES, max_size=6))
@example(LARGE, [5e-324, 1.7e308, -1.7e308, math.nan, math.inf])
def test_every_reader_ends_and_counts_right(batches, old):
    """old: values that tables have from before there was a bound; sums of some overflow, others are none."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fleet = Fleet(folder)
        fleet.landing.mkdir()
        total, devices, known = land(fleet, batches)
        assert fleet.count("raw") == total["deliveries"]
        before = look(folder, total, devices, known)
        for form in FORMS:
            done = ask(folder, "export", folder / form, "--follow", "--once", "--json", "--format", form).splitlines()
            rows = sum(json.loads(line)["measurements"] for line in done)
            assert rows == sum(one["measurements"] for one in devices.values()), form
        row = {"device": "good", "name": "old", "unit": "V", "epoch": 7, "seq": 0}
        row |= dict.fromkeys(("received", "time"), 10**6 * AT)
        fleet.batch([], [row | {"place": place, "value": value} for place, value in enumerate(old)])
        total["numbers"] += len(old)
        fleet.merge()
        assert look(folder, total, devices, known) == before
