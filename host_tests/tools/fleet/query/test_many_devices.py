"""What takes time and memory grows with the number of devices, not with its square."""

import datetime

import pytest

DEVICES = 2000
BEGAN = datetime.datetime(2026, 3, 1, tzinfo=datetime.timezone.utc)


def journal(n, epoch=7, began=0, ended=3600):
    """A row of the ledger."""
    first, last = (BEGAN + datetime.timedelta(seconds=s) for s in (began, ended))
    return (f"device-{n:04}", epoch, [{"lo": 0, "hi": 9}], 0, first, last, _sketch(100 * n))


def _sketch(ms):
    from datasketches import kll_doubles_sketch

    sketch = kll_doubles_sketch(200)
    sketch.update(ms)
    return sketch.serialize()


@pytest.fixture
def database(tmp_path):
    """database(journals): a Database of them with the views."""
    import pyarrow as arrow
    from deltalake import write_deltalake

    from inflight_tools.fleet.query import views
    from inflight_tools.fleet.query.database import Database

    number, time = arrow.int64(), arrow.timestamp("us", "UTC")
    ranges = arrow.list_(arrow.struct([("lo", number), ("hi", number)]))
    columns = {"device": arrow.string(), "epoch": number, "ranges": ranges, "repeated": number}
    columns |= {"first_received": time, "last_received": time, "latency": arrow.binary()}

    def write(journals):
        rows = [dict(zip(columns, one, strict=True)) for one in journals]
        write_deltalake(tmp_path / "ledger", arrow.Table.from_pylist(rows, arrow.schema([*columns.items()])))
        database = Database(tmp_path)
        with database:
            views.judge(database, BEGAN.timestamp() + 7200, 3600)
            yield database

    made = []

    def make(journals):
        made.append(write(journals))
        return next(made[-1])

    yield make
    for one in made:
        one.close()


def test_no_device_is_compared_with_each_other_one(database):
    plan = database(journal(n) for n in range(DEVICES)).rows("EXPLAIN FROM devices")
    assert "Hash Join" in str(plan) and "Nested Loop" not in str(plan)


def test_the_latency_of_each_device_of_a_large_fleet(database):
    from inflight_tools.fleet.query import latency

    found = database(journal(n) for n in range(3))
    expected = {f"device-{n:04}": dict.fromkeys(("p50", "p95", "p99"), 100.0 * n) for n in range(3)}
    assert latency.of_devices(found) == expected
    assert latency.of_devices(found, ["device-0001", "none"]) == {"device-0001": expected["device-0001"]}


@pytest.mark.parametrize(
    ("name", "journals", "shared"),
    [
        ("one after the other", [(7, 0, 100), (8, 100, 200)], False),
        ("what was on the way, for less than a minute", [(7, 0, 160), (8, 100, 200)], False),
        ("both at the same time", [(7, 0, 161), (8, 100, 200)], True),
        ("begun at the same time", [(7, 0, 0), (8, 0, 61)], True),
        ("the first of three in use all the time", [(7, 0, 900), (8, 10, 20), (9, 500, 600)], True),
        ("the later of three", [(7, 0, 10), (8, 10, 900), (9, 500, 600)], True),
    ],
)
def test_two_boards_with_one_name(database, name, journals, shared):
    found = database([journal(0, *one) for one in journals] + [journal(1)])
    devices = {row["device"]: row["shared"] for row in found.rows("FROM devices")}
    assert devices == {"device-0000": shared, "device-0001": False}
