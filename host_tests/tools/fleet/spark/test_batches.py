"""What batches make of deliveries: each message once, hostile ones as dead letters, readings at their true time. One
fleet has a device for each test, in three batches."""

import base64
import json
import random

import pyarrow.parquet as parquet
import pytest

from host_tests.tools.fleet.without_spark import AT, delivery, telemetry
from inflight_tools.fleet.query.follow import Follower
from inflight_tools.fleet.where.answer import deliveries

BASE = AT // 1000  # in s since 1970
DAY = 86_400_000
YEAR = 365 * 86_400
MEGABYTE = json.dumps([{"n": "a", "vs": "x" * 1_000_000, "seq": 9, "epoch": 9}])
CLOCKS = (BASE - 7 * 86_400, 0, 3600, BASE - 10 * YEAR, BASE + 75 * YEAR, BASE)
HOSTILE = [
    delivery("bad/telemetry", "nonsense"),
    delivery("bad/telemetry", '[{"n":"a","v":NaN,"seq":1,"epoch":1}]'),
    delivery("bad/telemetry", MEGABYTE),
    delivery("bad/telemetry", "[" * 60_000),
    delivery("bad/telemetry", "", text=None, base64=base64.b64encode(b"\xff\xfe\x00").decode()),
    delivery("bad/telemetry", [{"n": "\u202e<script>", "v": 1, "seq": 1, "epoch": 1}]),
    delivery("bad/telemetry", '[{"n":"a","vs":"\\ud800","seq":2,"epoch":1}]'),
    delivery("bad/telemetry", "[]"),
    delivery("bad/health", {"seq": 3, "epoch": 1, "up": "ever"}),
    delivery("bad/elsewhere", "{}"),
    b"\xff\xfe not JSON\r with other line ends\n",
]
TORN = '{"at": 17600'  # as after a power cut
LETTERS = len(HOSTILE) + 1


def line(device, seq, **pack):
    """A line of a pack that was received 5000 s after BASE; its `v` are readings."""
    values = pack.pop("v", [])
    head = {"bn": f"urn:dev:mac:{device}:", "bt": 0, "seq": seq, "epoch": 1, **pack}
    readings = [{"n": "t", "u": "Cel", "v": value} for value in values]
    records = [head | readings[0], *readings[1:]] if readings else [head]
    return delivery(f"{device}/telemetry", records, AT + 5_000_000)


def reading(device, seq, up):
    return line(device, seq, up=up, v=[seq, seq])


def dating(device, seq, boot, up, time):
    return line(device, seq, bt=BASE + time, boot=boot, up=up)


def gathered(rows):
    """A message with several readings, as a collector writes it: without blanks."""
    body = {"bt": 0, "up": 1.0, "seq": 0, "epoch": 1, "n": ["t", "rh"], "u": ["Cel", "%RH"], "rows": rows}
    whole = json.loads(delivery("j/telemetry", json.dumps(body, separators=(",", ":")), AT + 5_000_000))
    return json.dumps(whole, separators=(",", ":")) + "\n"


WRONG = [{"boot": 9}, {"up": "x"}, {"up": -1}, {"up": True}, {"boot": True}, {"bt": "x"}]  # they date nothing


def first_batch():
    yield telemetry("single", 0, 21.5)
    yield from (telemetry("again", n % 5, dup=n >= 5, at=AT + n) for n in range(15))
    yield telemetry("late", 9)
    yield from (telemetry(device, n, epoch=epoch) for n in range(3) for epoch in (1, 2) for device in ("a", "b"))
    yield from (telemetry("highest", n, epoch=n) for n in (2**32 - 1, 2**32 - 1, 0))
    yield from [telemetry("good", 0), *HOSTILE, telemetry("good", 1)]
    yield from (telemetry("clocks", n, bt=bt) for n, bt in enumerate(CLOCKS))
    # A message with one bad record, delivered twice.
    odd = delivery("odd/telemetry", [{"n": "a", "v": "hot", "seq": 1, "epoch": 7}, {"n": "b", "v": 1}])
    yield from [delivery("odd/telemetry", [{"n": "a", "v": 1, "seq": 0, "epoch": 7}]), odd, odd]
    yield from [telemetry("jumps", 0, bt=BASE - 5), telemetry("jumps", 1, bt=BASE - 7200)]
    yield from [telemetry("comes-late", 1, bt=BASE - 5), telemetry("comes-late", 0, bt=BASE - 7200)]
    for n in range(4):
        at = AT + n * 100_000
        yield from [telemetry("new", n % 2, epoch=1 + n // 2, at=at), telemetry("two", n // 2, epoch=1 + n % 2, at=at)]
    yield from [telemetry("copied", 0, 20.0), telemetry("same", 0, 20.0)]
    yield delivery("kept/status", {"state": "online", "seq": 5, "epoch": 7}, retain=True)
    yield from (telemetry("kept", n) for n in (9, 10))
    yield from (telemetry("gaps", n) for n in range(0, 3000, 2))
    yield from (reading("u", n, 10.0 * n) for n in range(4))  # of a boot that never knew the time
    yield from [*(reading("u", 4 + n, 60.5 * n) for n in range(3)), line("u", 9, bt=BASE + 700, v=[1, 1])]
    yield dating("c", 3, 0, 10.0, 100.0)  # of several collectors what dates may come first
    yield gathered([[0, 1, 2], [10.5, 3, 4]])  # a power cut has left it beside that of three
    yield from (line("g", n, **({"bt": BASE, "boot": 1, "up": 5.0} | change)) for n, change in enumerate(WRONG))
    yield from [reading("h", 0, 7.0), line("h", 1, bt=BASE, boot=0, up=5.0), line("h", 2, bt=5, boot=0, up=9)]


def second_batch():
    yield from [telemetry("again", 4, dup=True), telemetry("again", 5)]
    # A backlog of a month arrives after newer messages.
    yield from (telemetry("late", n, n, at=AT + 1, bt=(AT - (30 - n) * DAY) / 1000) for n in range(9))
    yield from [*(telemetry("gaps", n) for n in range(1, 2001, 2)), telemetry("gaps", 0), telemetry("gaps", 2998)]
    yield from (telemetry("gaps", n) for n in (1 << 20, (1 << 20) + 1, (1 << 21) - 1))
    yield telemetry("good", 2)
    yield from [telemetry("copied", 0, 99.0, dup=True), telemetry("same", 0, 20.0, dup=True)]
    yield from [reading("u", 7, 180.0), dating("u", 8, 4, 200.0, 600.0)]
    yield from [reading("c", 0, 1.0), reading("c", 4, 1.0)]
    yield from [gathered([[0, 1, 2], [10.5, 3, 4], [20, 5, 6]]), dating("j", 4, 0, 100.0, 600.0)]


@pytest.fixture(scope="module")
def fleet_of_all(common_fleet):
    fleet = common_fleet
    fleet.land(*first_batch(), TORN)  # more than a MiB: many rows for Spark, those of the other batches are few
    for days, lines in ((0, ()), (1, second_batch()), (400, ())):
        old = [telemetry("old", n, at=AT + days * DAY, bt=BASE, dup=days > 0) for n in (0, 2)]
        fleet.land(*old, *lines)
        fleet.run()
    return fleet


@pytest.fixture(scope="module")
def facts(fleet_of_all):
    return fleet_of_all.facts()


@pytest.fixture(scope="module")
def devices(facts):
    return {one["device"]: one for one in facts["devices"]}


def only(fleet, table, device):
    (row,) = fleet.rows(f"FROM {table} WHERE device = '{device}'")
    return row


def test_a_message_becomes_one_row_in_each_table(fleet_of_all):
    raw = only(fleet_of_all, "raw", "single")
    assert (raw["epoch"], raw["seq"], raw["kind"], raw["first"]) == (7, 0, "telemetry", True)
    assert json.loads(raw["payload"])[0]["v"] == 21.5
    row = only(fleet_of_all, "measurements", "single")
    assert (row["name"], row["unit"], row["value"], row["clock"]) == ("temperature", "Cel", 21.5, "device")
    assert row["time"].timestamp() == BASE
    minute = only(fleet_of_all, "minutes", "single")
    assert (minute["count"], minute["min"], minute["max"]) == (1, 21.5, 21.5)


ONCE = {
    "again": [(7, n) for n in range(6)],
    "old": [(7, 0), (7, 2)],  # repeated after 400 days
    "late": [(7, n) for n in range(10)],
    **dict.fromkeys(("a", "b"), [(epoch, n) for epoch in (1, 2) for n in range(3)]),
    "highest": [(0, 0), (2**32 - 1, 2**32 - 1)],
    # As if a member of a group of collectors came back after hours, with every second message. The last numbers are far
    # apart, in other rows of the ledger.
    "gaps": [(7, n) for n in [*range(2001), *range(2002, 3000, 2), 1 << 20, (1 << 20) + 1, (1 << 21) - 1]],
}


@pytest.mark.parametrize("device", ONCE)
def test_each_number_counts_once_however_late_it_is(fleet_of_all, device):
    found = fleet_of_all.numbers("measurements", f"device = '{device}'")
    assert found == fleet_of_all.numbers("raw", f"first AND device = '{device}'")
    assert [number[1:] for number in found] == ONCE[device]


def test_repetitions_are_in_raw_only(fleet_of_all, devices):
    assert fleet_of_all.count("raw WHERE device = 'again'") == 17
    assert fleet_of_all.count("raw WHERE device = 'old'") == 6
    gaps = devices["gaps"]
    assert (gaps["accepted"], gaps["delivered"], gaps["repeated"], gaps["flags"]) == (1 << 21, 2503, 2, [])
    assert gaps["lost"] == gaps["accepted"] - gaps["delivered"]


def test_hostile_messages_become_dead_letters_and_stop_nothing(fleet_of_all, facts, devices):
    assert fleet_of_all.numbers("measurements", "device = 'good'") == [("good", 7, n) for n in range(3)]
    rows = fleet_of_all.rows("FROM dead_letters WHERE device IS NULL OR device = 'bad'")
    letters = {row["reason"]: row["payload"] for row in rows}
    assert len(rows) == len(letters) == LETTERS
    assert letters["not UTF-8"] == b"\xff\xfe\x00"
    assert letters[f"{len(MEGABYTE)} bytes, 65536 are read"] == MEGABYTE.encode()
    assert devices["good"]["flags"] == []
    shown = {one["reason"]: one for one in facts["dead_letters"]}
    assert shown["not UTF-8"]["example"] == "\\xff\\xfe\x00" and shown["not UTF-8"]["count"] == 1
    assert sum(one["count"] for one in shown.values()) == facts["fleet"]["dead_letters"] == LETTERS + 1 + len(WRONG)
    assert json.loads(json.dumps(facts)) == facts


def test_a_message_with_a_problem_keeps_its_number_and_its_good_records(fleet_of_all, devices):
    assert fleet_of_all.numbers("measurements", "device = 'odd'") == [("odd", 7, n) for n in (0, 1)]
    odd = devices["odd"]
    assert (odd["accepted"], odd["delivered"], odd["lost"], odd["repeated"]) == (2, 2, 0, 1)
    assert odd["dead_letters"] == 1 and odd["measurements"] == 2


def test_wrong_clocks_are_flagged_and_lose_nothing(fleet_of_all, devices):
    rows = fleet_of_all.rows("FROM measurements WHERE device = 'clocks' ORDER BY seq")
    assert [row["clock"] for row in rows] == ["device", "receipt", "ahead", "behind", "ahead", "device"]
    assert {row["time"].timestamp() for row in rows} == {BASE, BASE - 7 * 86_400}
    assert "clock wrong" in devices["clocks"]["flags"] and devices["clocks"]["lost"] == 0


FLAGS = {
    "jumps": ["clock jumped"],
    "comes-late": [],
    "new": ["journal replaced"],
    "two": ["two boards, one id"],
    "copied": ["same number, other content"],  # two boards with copies of one journal
    "same": [],
}


def test_what_is_wrong_with_a_device_is_flagged(fleet_of_all, devices):
    assert {name: devices[name]["flags"] for name in FLAGS} == FLAGS
    assert all(devices[name]["delivered"] == 4 and devices[name]["lost"] == 0 for name in ("new", "two"))
    assert (devices["copied"]["conflicts"], devices["same"]["conflicts"]) == (1, 0)
    assert [row["live"] for row in fleet_of_all.rows("FROM ledger WHERE device = 'kept'")] == [9]
    assert only(fleet_of_all, "measurements", "copied")["value"] == 20.0
    assert ["time of receipt" in devices[name]["flags"] for name in ("u", "j")] == [True, False]


def times(fleet, device):
    """{number: (seconds after BASE, clock)} of the measurements, all of a number with the same."""
    rows = fleet.rows(f"FROM measurements WHERE device = '{device}'")
    assert len(rows) == 2 * len({row["seq"] for row in rows})
    return {row["seq"]: (round(row["time"].timestamp() - BASE, 3), row["clock"]) for row in rows}


TIMES = {
    # Of this boot, and of no other one: not of that before, which never knew the time.
    "u": dict.fromkeys(range(4), (5000, "receipt"))
    | {4 + n: (400 + 60.5 * n, "uptime") for n in range(3)}
    | {7: (580, "uptime"), 9: (700, "device")},
    "c": {0: (91, "uptime"), 4: (5000, "receipt")},
    "j": {n: (501 + t, "uptime") for n, t in enumerate((0, 10.5, 20))},
    "h": {0: (5000, "receipt")},  # nor does an earlier time, or an uptime that is over, date a reading
}


@pytest.mark.parametrize("device", TIMES)
def test_readings_are_dated_in_the_same_batch_and_in_earlier_ones(fleet_of_all, device):
    assert times(fleet_of_all, device) == TIMES[device]
    minutes = fleet_of_all.rows(
        f"""SELECT CAST(epoch(minute) AS BIGINT) AS t, CAST(sum(count) AS BIGINT) AS n FROM minutes
        WHERE device = '{device}' GROUP BY ALL"""
    )
    expected = {}
    for time, _ in TIMES[device].values():
        minute = int(BASE + time) // 60 * 60
        expected[minute] = expected.get(minute, 0) + 2
    assert {row["t"]: row["n"] for row in minutes} == expected


def test_the_tables_have_what_the_ledger_tells(facts, devices):
    assert facts["differences"] == [] and facts["fleet"]["doubled"] == 0
    assert (devices["j"]["delivered"], devices["j"]["repeated"], devices["j"]["conflicts"]) == (4, 2, 0)
    for name in ("accepted", "delivered", "lost", "repeated", "measurements"):
        assert facts["fleet"][name] == sum(one[name] for one in devices.values() if one["device"] != "highest")


def test_where_tells_when_an_undated_message_was_made(fleet_of_all):
    with fleet_of_all.database() as database:
        database.only("c")
        (found,) = deliveries(database, 1, 0)
    assert found["made"] == pytest.approx(BASE + 91)


@pytest.mark.long("INFLIGHT_TOOLS")
def test_merged_files_are_dated_and_exported_once(fleet, tmp_path):
    follower, found = Follower(fleet.root, tmp_path / "out"), []

    def follow():
        follower.step()
        for path in (tmp_path / "out").glob("*.parquet"):
            found.extend((row["seq"], row["place"], row["clock"]) for row in parquet.read_table(path).to_pylist())
            path.unlink()

    fleet.land(reading("g", 0, 1.0), reading("g", 1, 2.0), reading("g", 9, 1.0), line("g", 2, bt=BASE, v=[1, 1]))
    for _ in range(2):
        fleet.run()
        follow()
        fleet.tables.merge()
        fleet.land(dating("g", 3, 0, 10.0, 100.0), line("g", 4, bt=BASE, v=[1, 1]))
    assert sorted(found) == [(n, k, "uptime" if n < 2 else "device") for n in (0, 1, 2, 4) for k in (0, 1)]
    dated = {0: (91, "uptime"), 1: (92, "uptime"), 9: (5000, "receipt")}
    assert times(fleet, "g") == dated | dict.fromkeys((2, 4), (0, "device"))
    fleet.run()
    follow()
    assert follower.step() is None and len(found) == 8


@pytest.mark.long("INFLIGHT_PIPELINE")
@pytest.mark.timeout(1800)
def test_any_order_and_any_repetition(fleet, monkeypatch):
    """With batches of one file, a merged ledger, and finally all tables merged."""
    monkeypatch.setattr("inflight_tools.fleet.spark.batch._MERGED", 3)
    dice = random.Random(4)
    sent = [(device, n) for device in ("a", "b", "c") for n in range(200)]
    lost = {("b", 50), ("b", 51), ("c", 199)}
    deliveries = [one for one in sent + dice.sample(sent, 300) if one not in lost]
    deliveries.sort(key=lambda one: one[1] + dice.uniform(0, 60))
    size = 225
    for at in range(0, len(deliveries), size):
        fleet.land(*[telemetry(device, n, at=AT + at) for device, n in deliveries[at : at + size]])
    fleet.run(files=1)
    assert fleet.files("raw") >= -(-len(deliveries) // size) > 3 > fleet.files("ledger")
    assert fleet.tables.merge() >= 4
    assert fleet.files("raw") == 1
    expected = sorted({(device, 7, n) for device, n in deliveries})
    assert fleet.numbers() == fleet.numbers("measurements", "true") == expected
    assert fleet.count("raw") == len(deliveries)
    found = {row["device"]: [tuple(one.values()) for one in row["ranges"]] for row in fleet.rows("FROM ledger")}
    assert found == {"a": [(0, 199)], "b": [(0, 49), (52, 199)], "c": [(0, 198)]}
    facts = fleet.facts()["fleet"]
    assert (facts["lost"], facts["doubled"], facts["repeated"]) == (2, 0, len(deliveries) - len(expected))
