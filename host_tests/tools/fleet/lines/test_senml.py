"""SenML packs are resolved as RFC 8428 says."""

import functools

import pytest

from inflight_tools.fleet.lines import senml

resolve = functools.partial(senml.resolve, most=10_000)
NOW = 1.7e9


def values(pack):
    """{name: (unit, time, value)} of a pack without problems."""
    records, problems = resolve(pack)
    assert not problems
    return {name: (unit, time, next((v for v in rest if v is not None), None)) for name, unit, time, *rest in records}


OTHER = {"n": "c", "u": "Cel", "v": -3.5}
MORE = [{"u": "%RH", "n": "air", "v": 40}, {"n": "door", "vb": False}, {"n": "mode", "vs": "open"}]
PACKS = {
    "base values hold for the records behind them": (
        [{"bn": "1:", "bt": NOW, "bu": "V", "bv": 10, "n": "a", "v": 1}, {"n": "b", "v": 2, "t": -5}, OTHER],
        {"1:a": ("V", NOW, 11.0), "1:b": ("V", NOW - 5, 12.0), "1:c": ("Cel", NOW, 6.5)},
    ),
    "they are replaced": (
        [{"bn": "x/", "bt": NOW, "n": "a", "v": 1}, {"bn": "y/", "n": "a", "v": 2}, {"bt": NOW + 60, "n": "b", "v": 3}],
        {"x/a": (None, NOW, 1.0), "y/a": (None, NOW, 2.0), "y/b": (None, NOW + 60, 3.0)},
    ),
    "a record may set them only": ([{"bn": "x", "bt": NOW, "bu": "W"}, {"v": 5}], {"x": ("W", NOW, 5.0)}),
    "a base value alone is a value": ([{"bn": "x", "bv": 7}], {"x": (None, 0.0, 7.0)}),
    "a time without a base is relative": ([{"n": "a", "v": 1, "t": -120}], {"a": (None, -120, 1.0)}),
    "a sum adds its base": ([{"n": "energy", "bs": 100, "s": 20.5}], {"energy": (None, 0.0, 120.5)}),
    "unknown fields": ([{"n": "a", "v": 1, "seq": 5, "epoch": 7, "colour": "red"}], {"a": (None, 0.0, 1.0)}),
    "what the firmware sends": (
        [{"bn": "mac:28:", "bt": NOW, "seq": 4, "u": "Cel", "n": "hot", "v": 21.5}, *MORE, {"n": "data", "vd": "aGk"}],
        {"mac:28:hot": ("Cel", NOW, 21.5), "mac:28:air": ("%RH", NOW, 40.0)}
        | {f"mac:28:{n}": (None, NOW, value) for n, value in (("door", False), ("mode", "open"), ("data", "aGk"))},
    ),
}


@pytest.mark.parametrize("name", PACKS)
def test_packs(name):
    pack, expected = PACKS[name]
    assert values(pack) == expected


BAD = {
    "not an object": (5, None),
    "no value": ({}, {"n": "a"}, {"n": "a", "u": "V"}),
    "no name": ({"v": 1}, {"n": "", "v": 1}),
    "a name with characters": ({"n": "white space", "v": 1}, {"n": "<script>", "v": 1}),
    "v is not a number": ({"n": "a", "v": value} for value in ("21.5", True, None, [1])),
    "bt is not a number": ({"n": "a", "v": 1, "bt": "x"},),
    "t is not a number": ({"n": "a", "v": 1, "t": {}},),
    "v is out of range, 1e+100 at most": (
        *({"n": "a", "v": value} for value in (10**400, 1.1e100, -1.1e100)),
        *({"n": "a", name: 1e100, f"b{name}": 1e100} for name in "vs"),
    ),
    "s is out of range, 1e+100 at most": ({"n": "a", "s": 1e308},),
    "t is out of range": ({"n": "a", "v": 1, "t": float("inf")},),
    "n is not text": ({"n": 5, "v": 1},),
    "u is not text": ({"n": "a", "u": 5, "v": 1},),
    "vs is not text": ({"n": "a", "vs": 5},),
    "vb is not true or false": ({"n": "a", "vb": 1},),
    "several values: v, vs": ({"n": "a", "v": 1, "vs": "x"},),
    "secret_ must be understood": ({"n": "a", "v": 1, "secret_": 1},),
    "bver is newer": ({"n": "a", "v": 1, "bver": 11},),
}


@pytest.mark.parametrize("reason", BAD)
def test_a_bad_record_is_reported_and_the_others_are_kept(reason):
    for record in BAD[reason]:
        records, problems = resolve([{"n": "good", "v": 1}, record, {"n": "also", "v": 2}])
        assert [name for name, *_ in records] == ["good", "also"]
        assert len(problems) == 1 and problems[0].startswith("record 1: " + reason)


@pytest.mark.parametrize("pack", [{"n": "a", "v": 1}, "text", 5, None, True])
def test_a_pack_must_be_an_array(pack):
    assert resolve(pack) == ([], ["not an array of records"])
