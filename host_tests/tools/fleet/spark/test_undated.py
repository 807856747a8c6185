"""Readings from before a device knew the time: the tables have the time that it tells later."""

import datetime
import json

import pytest

BASE = 1_760_000_000  # in s since 1970
FAR = datetime.timedelta(days=1)


def line(device, seq, at, **pack):
    """A line of a pack that was received `at` seconds after BASE; its `v` are readings."""
    values = pack.pop("v", [])
    head = {"bn": f"urn:dev:mac:{device}:", "bt": 0, "seq": seq, "epoch": 1, **pack}
    readings = [{"n": "t", "u": "Cel", "v": value} for value in values]
    records = [head | readings[0], *readings[1:]] if readings else [head]
    found = {"at": 1000 * (BASE + at), "by": "c", "topic": f"inflight/{device}/telemetry", "qos": 1, "dup": False}
    return json.dumps({**found, "retain": False, "text": json.dumps(records)}) + "\n"


def reading(device, seq, up, at=5000):
    return line(device, seq, at, up=up, v=[seq, seq])


def dating(device, seq, boot, up, time):
    return line(device, seq, 5000, bt=BASE + time, boot=boot, up=up)


def times(fleet, device):
    """{number: (seconds after BASE, clock)} of the measurements, all of a number with the same."""
    rows = fleet.tables.measurements.read().where(f"device = '{device}'").collect()
    assert len(rows) == 2 * len({row["seq"] for row in rows})
    return {row["seq"]: (round(row["time"].timestamp() - BASE, 3), row["clock"]) for row in rows}


def minutes(fleet, device):
    """{minute after BASE: how many readings}"""
    with fleet.database() as database:
        rows = database.rows(
            f"""SELECT CAST(epoch(minute) - {BASE - BASE % 60} AS BIGINT) // 60 AS t, CAST(sum(count) AS BIGINT) AS n
            FROM minutes WHERE device = '{device}' GROUP BY ALL"""
        )
    return {row["t"]: row["n"] for row in rows}


def test_readings_are_dated_in_the_same_batch_and_in_earlier_ones(fleet):
    """Of this boot, and of no other one: not of that before, which never knew the time."""
    fleet.land(*(reading("a", n, 10.0 * n) for n in range(4)))  # cut before it knew the time
    fleet.land(*(reading("a", 4 + n, 60.5 * n) for n in range(3)), line("a", 9, 5000, bt=BASE + 700, v=[1, 1]))
    fleet.run(files=1)
    assert times(fleet, "a") == dict.fromkeys(range(7), (5000, "receipt")) | {9: (700, "device")}
    late = reading("a", 7, 180.0)
    fleet.land(late, dating("a", 8, 4, 200.0, 600.0))
    fleet.run()
    expected = dict.fromkeys(range(4), (5000, "receipt")) | {9: (700, "device")}
    expected |= {4 + n: (400 + 60.5 * n, "uptime") for n in range(3)} | {7: (580, "uptime")}
    assert times(fleet, "a") == expected
    second = (5000 + BASE % 60) // 60
    assert minutes(fleet, "a") == {
        second: 8,
        **dict.fromkeys(((400 + BASE % 60) // 60 + n for n in range(3)), 2),
        (580 + BASE % 60) // 60: 2,
        (700 + BASE % 60) // 60: 2,
    }


def test_gathered_readings_are_dated_each_once(fleet):
    """A power cut has left the message of two readings beside that of three."""
    found = json.loads(reading("j", 1, 1.0))  # a collector writes no blanks
    body = {"bt": 0, "up": 1.0, "seq": 0, "epoch": 1, "n": ["t", "rh"], "u": ["Cel", "%RH"]}
    for rows in ([[0, 1, 2], [10.5, 3, 4]], [[0, 1, 2], [10.5, 3, 4], [20, 5, 6]]):
        text = json.dumps(body | {"rows": rows}, separators=(",", ":"))
        fleet.land(json.dumps(found | {"text": text}, separators=(",", ":")) + "\n")
    fleet.run(files=1)
    assert fleet.numbers() == [("j", 1, n) for n in range(3)]
    fleet.land(dating("j", 4, 0, 100.0, 600.0))
    fleet.run()
    assert times(fleet, "j") == {n: (501 + t, "uptime") for n, t in enumerate((0, 10.5, 20))}
    facts = fleet.facts()["fleet"]
    assert (facts["delivered"], facts["repeated"], facts["conflicts"], facts["doubled"]) == (4, 2, 0, 0)


def test_a_batch_that_is_repeated_dates_them_once(fleet, monkeypatch):
    fleet.land(reading("b", 0, 1.0), reading("b", 1, 2.0))
    fleet.run()
    fleet.land(dating("b", 3, 0, 10.0, 100.0), reading("b", 2, 9.0))
    from inflight_tools.fleet.spark.tables import Table

    write, cuts = Table.write, ["minutes", "ledger"]

    def cut(table, *args, **how):
        if cuts and table.name == cuts[0]:
            raise RuntimeError(cuts.pop(0))
        return write(table, *args, **how)

    monkeypatch.setattr(Table, "write", cut)
    for _ in range(2):
        with pytest.raises(Exception, match="minutes|ledger"):
            fleet.run()
    fleet.run()
    assert times(fleet, "b") == {n: (t, "uptime") for n, t in enumerate((91, 92, 99))}
    assert sum(minutes(fleet, "b").values()) == 6
    assert fleet.facts()["fleet"]["doubled"] == 0


def test_of_several_collectors_what_dates_them_may_come_first(fleet):
    fleet.land(dating("c", 3, 0, 10.0, 100.0))
    fleet.run()
    fleet.land(reading("c", 0, 1.0), reading("c", 4, 1.0))
    fleet.run()
    assert times(fleet, "c") == {0: (91, "uptime"), 4: (5000, "receipt")}


def test_merged_files_are_dated_too(fleet):
    for n in range(3):
        fleet.land(reading("d", n, float(n)), reading("d", 10 + n, float(n)))
        fleet.run()
    fleet.tables.merge()
    fleet.land(dating("d", 5, 0, 10.0, 100.0))
    fleet.run()
    expected = {n: (90 + n, "uptime") for n in range(3)} | {10 + n: (5000, "receipt") for n in range(3)}
    assert times(fleet, "d") == expected
    fleet.tables.merge()
    assert times(fleet, "d") == expected
    assert sum(minutes(fleet, "d").values()) == 12


def test_the_report_names_devices_whose_readings_have_the_time_of_receipt(fleet):
    fleet.land(reading("e", 0, 1.0), reading("f", 0, 1.0), dating("f", 1, 0, 10.0, 100.0))
    fleet.run()
    flags = {device["device"]: device["flags"] for device in fleet.facts()["devices"]}
    assert ("time of receipt" in flags["e"], "time of receipt" in flags["f"]) == (True, False)


def test_packs_that_cannot_date_anything_are_dead_letters(fleet):
    """Nor does an earlier time, or an uptime that is over, date a reading."""
    wrong = [{"boot": 9}, {"up": "x"}, {"up": -1}, {"up": True}, {"boot": True}, {"bt": "x"}]
    good = {"bt": BASE, "boot": 1, "up": 5.0}
    for n, change in enumerate(wrong):
        fleet.land(line("g", n, 5000, **(good | change)))
    fleet.land(
        reading("h", 0, 7.0), line("h", 1, 5000, bt=BASE, boot=0, up=5.0), line("h", 2, 5000, bt=5, boot=0, up=9)
    )
    fleet.run()
    assert len(fleet.problems()) == len(wrong)
    assert times(fleet, "h") == {0: (5000, "receipt")}


def test_where_tells_when_an_undated_message_was_made(fleet):
    from inflight_tools.fleet.where.history import History

    fleet.land(reading("i", 0, 1.0), dating("i", 1, 0, 10.0, 100.0))
    fleet.run()
    with fleet.database() as database:
        (delivery,) = History(database, "i").deliveries(1, 0)
    assert delivery["made"] == pytest.approx(BASE + 91)


def test_an_export_that_follows_has_each_reading_once_with_its_time(fleet, tmp_path):
    import pyarrow.parquet as parquet

    from inflight_tools.fleet.query.follow import Follower

    follower, found = Follower(fleet.root, tmp_path / "out"), []

    def follow():
        follower.step()
        for path in (tmp_path / "out").glob("*.parquet"):
            found.extend((row["seq"], row["place"], row["clock"]) for row in parquet.read_table(path).to_pylist())
            path.unlink()

    fleet.land(reading("g", 0, 1.0), reading("g", 1, 2.0), reading("g", 9, 1.0), line("g", 2, 5000, bt=BASE, v=[1, 1]))
    for _ in range(2):
        fleet.run()
        follow()
        fleet.tables.merge()
        fleet.land(dating("g", 3, 0, 10.0, 100.0), line("g", 4, 5000, bt=BASE, v=[1, 1]))
    assert sorted(found) == [(n, k, "uptime" if n < 2 else "device") for n in (0, 1, 2, 4) for k in (0, 1)]
    fleet.run()
    fleet.tables.merge(None, datetime.datetime.fromtimestamp(BASE, datetime.timezone.utc) + FAR)
    follow()
    assert follower.step() is None and len(found) == 8 and not fleet.numbers("measurements", "true")
