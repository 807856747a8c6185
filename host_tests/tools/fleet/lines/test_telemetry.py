"""Usual telemetry is read by columns, with the result that parse() has; all other lines are left to parse()."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from inflight_tools.fleet.collect.line import line
from telemetry import pack
from tools.reference.properties import block

pa = pytest.importorskip("pyarrow")

AT = 1_790_000_000_150
ROOT, DEVICE = "a.b (c)", "4c7525aa01ff"
EXPIRY, TYPE, USER = 2, 3, 38  # properties
READINGS = [("temperature", "Cel", 21.5), ("air:co2/1", "", -7), ("door", "", True), ("mode", "", "auto, 2")]


def telemetry(
    readings=READINGS, clock="1790000000.125", seq=7, epoch=1, device=DEVICE, at=AT, qos=1, dup=False, properties=()
):
    """A line as the collector writes it of what the firmware publishes. properties: ((id, value), ...), at level 5."""
    body, sent = pack(device, clock, seq, epoch, readings), block(*properties)[1:]
    return line(at, "collector-1", f"{ROOT}/{device}/telemetry", qos, dup, False, body, 1 << 20, sent)[:-1]


def as_rows(lines, how):
    batch = pa.RecordBatch.from_arrays([pa.array(lines, pa.binary())], ["value"])
    return [row for found in how(batch) for row in found.to_pylist()]


def read(lines):
    """The rows of the lines, in the order of their JSON."""
    from inflight_tools.fleet.lines.reader import reader

    return sorted(as_rows(lines, lambda batch: reader(ROOT)([batch])), key=repr)


def parsed(lines):
    """The same by parse() alone."""
    from inflight_tools.fleet.lines.parse import Topics
    from inflight_tools.fleet.lines.reader import parsed

    return sorted(as_rows(lines, lambda batch: [parsed(batch.column(0).to_pylist(), Topics(ROOT))]), key=repr)


def are_usual(lines):
    from inflight_tools.fleet.lines.telemetry import Telemetry

    found = [Telemetry(ROOT, expiry)(pa.array(lines, pa.binary()))[0].to_pylist() for expiry in (False, True)]
    assert not any(map(all, zip(*found, strict=True)))
    return list(map(any, zip(*found, strict=True)))


def test_rows():
    (row,) = read([telemetry()])
    assert (row["device"], row["kind"], row["seq"], row["epoch"]) == (DEVICE, "telemetry", 7, 1)
    found = [(m["name"], m["unit"], m["value"], m["flag"], m["text"], m["clock"]) for m in row["records"]]
    assert found == [
        ("temperature", "Cel", 21.5, None, None, "device"),
        ("air:co2/1", None, -7, None, None, "device"),
        ("door", None, None, True, None, "device"),
        ("mode", None, None, None, "auto, 2", "device"),
    ]
    assert row["made"] == row["records"][0]["time"] and row["problem"] is None


READING = some.tuples(
    some.from_regex(r"[A-Za-z0-9][A-Za-z0-9:./_-]{0,8}", fullmatch=True),
    some.sampled_from(["", "Cel", "%RH", "/"]),
    some.one_of(
        some.booleans(),
        some.integers(-(10**14), 10**14),
        some.floats(allow_nan=False, allow_infinity=False, width=32),
        some.text("ab #[]!~,:{}", max_size=6),
    ),
)
CLOCK = some.one_of(some.just("0"), some.integers(0, 4 * 10**9).map(str), some.floats(0, 4e9).map("{:.3f}".format))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    some.lists(
        some.builds(
            telemetry,
            some.lists(READING, min_size=1, max_size=4),
            CLOCK,
            some.integers(0, 999_999_999),
            some.integers(0, 999_999_999),
            at=some.integers(10**12, 9 * 10**12 - 1),
            qos=some.sampled_from([0, 1, 2]),
            dup=some.booleans(),
            properties=some.one_of(some.just(()), some.integers(0, 999_999_999).map(lambda s: [(EXPIRY, s)])),
        ),
        max_size=8,
    )
)
def test_what_the_firmware_publishes_is_usual(lines):
    assert all(are_usual(lines))
    assert read(lines) == parsed(lines)


UNUSUAL = ['a "quote"', "21 °C", "line\nbreak", "back\\slash", 10**15]
UNUSUAL = [*([("n", "", value)] for value in UNUSUAL), [("-n", "", 1)], [("n", "", 1)] * 1001]


@pytest.mark.parametrize("readings", UNUSUAL, ids=lambda readings: repr(readings[0]))
def test_unusual_readings(readings):
    lines = [telemetry(), telemetry(readings), telemetry(seq=8)]
    assert are_usual(lines) == [True, False, True]
    assert read(lines) == parsed(lines)


LIMITS = [{"seq": 10**9}, {"epoch": 1 << 32}, {"at": 1}, {"at": 9 * 10**12}]
LIMITS += [{"clock": clock} for clock in ("1e400", "-1", "1e30", "1e-05")]
LIMITS += [{"device": name} for name in ("a:b", "a/b", "")]
SENML = (TYPE, "application/senml+json")
PROPERTIES = ([(EXPIRY, 10**9)], [(EXPIRY, (1 << 32) - 1)], [(EXPIRY, 5), SENML], [SENML])
LIMITS += [{"properties": given} for given in (*PROPERTIES, [(USER, ("a", "1")), (USER, ("a", "ü"))])]
LARGE = ["1e+99", "-1e+99", "1e+100", "-1e+100", "9e+100", "999999999999999e+79", "1e-99"]


@pytest.mark.parametrize("fields", [*LIMITS, *LARGE], ids=repr)
def test_numbers_and_names_at_the_limits(fields):
    line = telemetry([("a", "V", 1)])
    large = isinstance(fields, str) and line.replace(b'\\"v\\":1}', f'\\"v\\":{fields}}}'.encode())
    lines = [line, large or telemetry(**fields)]
    assert lines[1] != line and read(lines) == parsed(lines)
    refused = [row for row in parsed(lines) if "out of range, 1e+100" in (row["problem"] or "")]
    assert len(refused) == (large and abs(float(fields)) > 1e100)


@pytest.mark.parametrize(
    "properties",
    [(), [(EXPIRY, 86_400)], [(EXPIRY, 7), (TYPE, "a"), (USER, ("b", "c"))]],
    ids=["none", "expiry", "several"],
)
def test_a_line_that_differs_in_one_byte(properties):
    """Each byte is left out, doubled, and replaced."""
    whole = telemetry([("a", "V", -0.5), ("b", "", False)], properties=properties)
    lines = []
    for i in range(len(whole)):
        lines += [whole[:i] + whole[i + 1 :], whole[: i + 1] + whole[i:]]
        lines += [whole[:i] + new + whole[i + 1 :] for new in (b'"', b"\\", b"0", b" ", b"}", b"\n", b"\xc3", b"e")]
    assert read(lines) == parsed(lines)


def test_other_lines():
    lines = [b"", b"{}", b"\xff\xfe", telemetry() + b"\n", telemetry()[:-1]]
    lines += [telemetry().replace(b"/telemetry", b"/health"), telemetry().replace(ROOT.encode(), b"aXb (c)")]
    lines.append(json.dumps(json.loads(telemetry())).encode())
    assert not any(are_usual(lines))
    assert read(lines) == parsed(lines)
