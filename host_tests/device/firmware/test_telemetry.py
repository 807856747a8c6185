"""SenML packs on every runtime."""

import json

import telemetry
from harness import eq

RUNTIMES = "cpython micropython-x86 micropython-wasm"


def pack(*readings, clock="0", seq=7, epoch=9):
    return json.loads(telemetry.pack("a1b2c3d4e5f6", clock, seq, epoch, readings))


def test_first_record_has_base_name_time_and_number():
    records = pack(("load", "/", 0.5), ("uptime", "s", 12), clock="1700000000", seq=41, epoch=4_000_000_000)
    first = {"bn": "urn:dev:mac:a1b2c3d4e5f6:", "bt": 1700000000, "seq": 41, "epoch": 4_000_000_000}
    first.update({"n": "load", "u": "/", "v": 0.5})
    eq(records, [first, {"n": "uptime", "u": "s", "v": 12}])


def test_every_kind_of_value():
    records = pack(("door", None, True), ("lamp", None, False), ("state", None, 'a "b"\n\\'), ("n", "count", 1 << 40))
    eq([(r.get("vb"), r.get("vs"), r.get("v")) for r in records][:2], [(True, None, None), (False, None, None)])
    eq(records[2]["vs"], 'a "b"\n\\')
    eq(records[3]["v"], 1 << 40)
    assert "u" not in records[0]
    found = [(r["n"], r["u"]) for r in pack(('a "b"', '"', 1), ("d\\e", "\u00b5g/m\u00b3", 2))]  # as an entry says
    eq(found, [('a "b"', '"'), ("d\\e", "\u00b5g/m\u00b3")])
    eq(telemetry.pack("a", "0", 1, 2, ()), None)


def test_numbers_of_any_size_are_json():
    for value in (0.0, -0.5, 21.45, 1e-9, 1e20, -1e20, 1234567.0):
        got = pack(("x", "V", value))[0]["v"]
        assert abs(got - value) <= abs(value) * 1e-6, (got, value)


def test_a_reading_without_a_clock_has_the_uptime():
    (record,) = pack(("load", "/", 0.5), clock='0,"up":81.25')
    eq((record["bt"], record["up"], record["v"]), (0, 81.25, 0.5))


def test_the_pack_that_dates_them_has_no_reading():
    (record,) = json.loads(telemetry.dating("dev", "1790000000", 12, 9, 7, "81.25"))
    head = {"bn": "urn:dev:mac:dev:", "bt": 1790000000, "seq": 12, "epoch": 9}
    eq(record, dict(head, boot=7, up=81.25))


def test_times_are_exact_where_a_float_has_32_bits():
    found = [telemetry.seconds(cs) for cs in (0, 5, 8120, 179_000_000_000, 179_000_000_001)]
    eq(found, ["0", "0.05", "81.2", "1790000000", "1790000000.01"])


def broken():
    yield "good", "V", 1
    yield "bad", "V", OSError(5, "EIO")
    yield "nan", "V", float("nan")
    yield "inf", "V", float("-inf")
    raise RuntimeError("bus")


def whole():
    yield "bad", "V", 2


def test_failures_are_recorded_and_do_not_affect_others():
    errors = {}
    eq(list(telemetry.read([broken, whole], errors))[0], ("good", "V", 1))
    errors = {}
    eq(list(telemetry.read([whole, broken], errors)), [("bad", "V", 2), ("good", "V", 1)])
    eq(sorted(errors), ["bad", "broken", "inf", "nan"])
    eq(errors["broken"], "RuntimeError: bus")
    assert "OSError" in errors["bad"]
    eq(list(telemetry.read([whole], errors)), [("bad", "V", 2)])
    eq(sorted(errors), ["broken", "inf", "nan"])
    eq(list(telemetry.read([lambda: (("x", None, None), ("y", None, b"z"))], errors)), [])
    eq((errors["x"], errors["y"]), ("not a value", "not a value"))
