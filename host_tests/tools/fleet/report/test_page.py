"""The page as HTML: its figures equal the facts, hostile text stays text, nothing is fetched."""

import base64
import functools
import hashlib
import json
import math
import re
import unicodedata
from pathlib import Path

import pytest

import inflight_tools
from host_tests.tools.fleet.report import made_facts
from host_tests.tools.fleet.report.reading import fleet_figures, read, shown, value
from inflight_tools.fleet.report import devices, render

MADE = made_facts.MADE | {"small": made_facts.fleet(3, minutes=9)}
FULL, ALL = sorted(MADE.keys() - {"empty"}), sorted(MADE)


@functools.cache
def page_of(name):
    return render(MADE[name])


@functools.cache
def read_page(name):
    return read(page_of(name))


@pytest.mark.parametrize("name", FULL)
def test_figures_of_the_fleet(name):
    expected = fleet_figures(MADE[name])
    assert {identity: value(read_page(name), identity) for identity in expected} == expected
    for identity, number in expected.items():
        if isinstance(number, int):
            assert read_page(name).one("data", id=identity).text == shown(number)


@pytest.mark.parametrize("name", FULL)
def test_figures_of_each_device_worst_first(name):
    bodies = list(read_page(name).one("table", id="devices-table").all("tbody"))
    assert len(bodies) == len(MADE[name]["devices"])
    for body, facts in zip(bodies, MADE[name]["devices"], strict=True):
        cells = [cell.text for cell in body.one("tr").all("td")]
        assert [*cells[2:5], cells[6]] == [shown(facts[key]) for key in ("accepted", "delivered", "lost", "restarts")]
        assert cells[7] == (shown(facts["journal"]["live"]) if facts["journal"] else "–")
        assert f"Repeated{shown(facts['repeated'])}" in body.text
        assert cells[5] == shown(facts["given_up"] + facts["on_way"] + facts["on_device"])


@pytest.mark.parametrize("name", FULL)
def test_the_timeline_as_a_table_adds_up(name):
    steps = read_page(name).one(id="steps").all("tr")
    rows = [[int(cell.text.replace(",", "")) for cell in row.all("td")] for row in steps]
    points = MADE[name]["timeline"]["points"]
    for column, key in enumerate(("received", "backlog", "restarts", "offline", "repeated", "dead_letters", "gone")):
        assert sum(row[column] for row in rows) == sum(point[key] for point in points)


def plain(element):
    """Its text on one line."""
    return " ".join(element.text.replace("\u00a0", " ").split())


def changed(**fields):
    """A fleet whose first device has these fields."""
    facts = made_facts.fleet(2)
    facts["devices"][0] |= fields
    return made_facts.add_up(facts)


def versions(many):
    return made_facts.fleet(3) | {"versions": [{"firmware": f"0.{n}", "devices": 9 - n} for n in range(many)]}


JOURNAL = {"used": 2048, "limit": 64 << 20} | dict.fromkeys(("live", "erases", "damaged"), 0)
GAVE_UP = {"erased": 0, "dropped": 1200, "damaged": 3, "skipped": 0}
OF_A_TIME = made_facts.empty() | {"asked": [made_facts.START, None]}
UNUSABLE = made_facts.empty() | {"dead_letters": MADE["complete"]["dead_letters"]}
UNUSABLE["fleet"] |= {"dead_letters": 15}
# Of facts: an element of the page by its id, and what it says.
WORDS = [
    (MADE["losing"], "devices-table", ["3 lost", "4 on the way", "two boards, one id", "clock wrong", "1 error"]),
    (MADE["losing"], "devices-table", ["journal 92 % in use", "good"]),
    (MADE["complete"], "d0", ["Errno 110", "power on", "111 KB", "640 B of 48 KB", "Sector erases31"]),
    (MADE["complete"], "dead", ['"n":"t","v":21.5,"seq":"x"}]', "inflight/attic-1/telemetry", "application/cbor"]),
    (MADE["complete"], "versions", ["Firmware 0.1.0: 49 devices · unknown: 1 device"]),
    (versions(8), "versions", ["devices · and 2 more versions"]),
    (made_facts.empty(), "empty", ["inflight fleet pipeline --broker host --root inflight", "make demo"]),
    (changed(silent=7200.0, heap=23_400_000, journal=JOURNAL), "devices", ["silent for 2 h", "22 MB"]),
    (changed(journal=JOURNAL), "devices", ["2,048 B of 64 MB"]),
    (changed(silent=90 * 86_400.0), "devices-table", ["was onlinenorth · 0.1.0 · esp32 · MicroPython 1.28.0"]),
    (changed(safe=True), "devices-table", ["online, safe mode"]),
    (changed(gave_up=GAVE_UP), "causes", ["dropped 1,200 · damaged 3"]),
    (OF_A_TIME, "verdict", ["No message arrived in this time."]),
    (OF_A_TIME, "asked", ["Only what was received since 20"]),
    (UNUSABLE, "dead", ["seq is no number"]),
    (UNUSABLE, "devices", ["0 devices"]),
]


@pytest.mark.parametrize(
    ("facts", "identity", "told"), WORDS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_words(facts, identity, told):
    text = plain(read(render(facts)).one(id=identity))
    assert [words for words in told if words not in text] == [], text


def series(name, unit, value, **fields):
    one = {"name": name, "unit": unit, "count": 2, "points": [[made_facts.START, *3 * [value]]]}
    return one | dict.fromkeys(("min", "mean", "max", "p50", "p95"), value) | fields


def test_measurements_and_then_the_health_of_a_device():
    """With units as people say them."""
    measured = (("disk", "B", 2.34e10), ("small", "B", 1), ("restarts", "", 1), ("drops", "count", 1))
    measured = [series(*one) for one in measured]
    facts = made_facts.fleet(2) | {"measurements": {"attic": measured, "roof": []}}
    facts["trends"] = {name: [series("free heap", "B", 7.5e4)] for name in ("attic", "roof")}
    found = [figure.text for figure in read(render(facts)).one(id="measurements").all("figure")]
    assert [text.split()[0] for text in found] == ["disk", "small", "restarts", "drops", "free", "free"]
    assert "23,400" in found[0] and "MB" in found[0] and "e+10" not in found[0] and "MB" not in found[1]
    assert not any(word in found[3].partition("drops")[2] for word in ("ratio", "no unit", "count"))


def test_unknown_is_a_dash_not_a_zero():
    facts = made_facts.fleet(3)
    facts["fleet"]["latency_ms"] = None
    page = read(render(facts))
    assert value(page, "fleet-p95") is None and page.one("data", id="fleet-p95").text == "–"
    sleeper = page.one("tr", id="d2").text
    assert "Free heap–" in sleeper and "Signal–" in sleeper and "Latency p50–" in sleeper


def test_hostile_text_stays_text():
    page = read_page("hostile")
    assert [one.attributes.get("type") for one in page.all("script")] == [*2 * ["application/json"], None]
    assert not list(page.all("img")) and not list(page.all("iframe"))
    for element in page.all():
        assert not [key for key in element.attributes if key.startswith("on") or key in ("style", "src")]
    allowed = {element.tag for element in read_page("complete").all()}
    assert {element.tag for element in page.all()} <= allowed
    assert "<script>alert(1)</script>" in page.one("section", id="dead").text  # as text


def test_invisible_characters_are_escaped():
    page = page_of("hostile")
    page.encode()  # a lone surrogate would fail
    unseen = {char for char in page if unicodedata.category(char)[0] == "C" or char in "\u2028\u2029"} - {"\n"}
    assert unseen == set()
    text = read_page("hostile").one("section", id="dead").text
    for written in ("\\u202egnp.exe\\u2066", "\\x00\\x1b[2J", "\\u2028", "\\ud800"):
        assert written in text


@pytest.mark.parametrize("name", FULL)
def test_points_are_json_without_markup(name):
    raw = read_page(name).one("script", id="points").text
    assert raw.isascii() and not set("<>&") & set(raw)
    for series in json.loads(raw).values():
        assert all(least <= greatest for _, _, least, greatest in series["p"])


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_fetched(name):
    page = read_page(name)
    for element in page.all():
        assert element.attributes.get("href", "#").startswith("#") or element.attributes["href"] == "data:,"
        assert not {"src", "srcset", "action", "poster", "background"} & set(element.attributes)
    style = page.one("style").text
    assert "@import" not in style and set(re.findall(r"url\((.)", style)) <= {"#"}
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|import)\b", _script(page))


def _script(page):
    return list(page.all("script"))[-1].text


@pytest.mark.parametrize("name", ALL)
def test_the_security_policy_allows_only_this_style_and_this_script(name):
    page = read_page(name)
    policy = page.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]
    for kind, text in (("style", page.one("style").text), ("script", _script(page))):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")


def test_size():
    """A page of 50 devices; of a longer time it has no more steps and points: test_steps.py."""
    assert len(page_of("complete").encode()) < 220 * 1024


def test_only_the_worst_devices_are_listed():
    facts = made_facts.empty()
    facts["devices"] = [made_facts.device(f"sensor-{n}") for n in range(devices.MOST + 7)]
    page = read(render(made_facts.add_up(facts)))
    assert len(list(page.one(id="devices-table").all("tbody"))) == devices.MOST
    assert f"{devices.MOST} devices (the worst of {devices.MOST + 7})" in page.one(id="devices").text
    assert value(page, "fleet-devices") == devices.MOST + 7


@pytest.mark.parametrize("name", ALL)
def test_structure(name):
    """For screen readers: language, headings without gaps, names of drawings, unique ids."""
    page = read_page(name)
    assert page.one("html").attributes["lang"] == "en"
    levels = [int(one.tag[1]) for one in page.all() if re.fullmatch("h[1-6]", one.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(
        after <= before + 1 or (before, after) == (2, 4) for before, after in zip(levels, levels[1:], strict=False)
    )
    identities = [one.attributes["id"] for one in page.all() if "id" in one.attributes]
    assert len(identities) == len(set(identities))
    for drawing in page.all("svg"):
        if drawing.attributes.get("role") == "img":
            title, description = drawing.attributes["aria-labelledby"].split()
            assert page.one("title", id=title).text and page.one("desc", id=description).text
        else:
            assert drawing.attributes["aria-hidden"] == "true"
    for element in page.all():
        if "aria-labelledby" in element.attributes or "aria-controls" in element.attributes:
            named = element.attributes.get("aria-labelledby") or element.attributes["aria-controls"]
            assert set(named.split()) <= set(identities)


STYLE = (Path(inflight_tools.__file__).parent / "base.css").read_text(encoding="utf-8")
MODES = [dict(re.findall(r"--(\w+): (#\w+)", block)) for block in re.findall(r":root \{(.*?)\}", STYLE, re.S)[:2]]


def _light(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[n : n + 2], 16) / 255 for n in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one, other):
    dark, bright = sorted((_light(one), _light(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("mode", (0, 1), ids=("light", "dark"))
def test_contrast(mode):
    """WCAG AA: 4.5 for text, 3 for drawings. The two paler colours are hatched, too."""
    colours = MODES[mode]
    for ground in ("page", "card"):
        for words in ("ink", "quiet", "good", "bad", "warn", "link"):
            assert _contrast(colours[words], colours[ground]) >= 4.5, (words, ground)
    for drawn in ("live", "offline", "mark", "repeat"):
        assert _contrast(colours[drawn], colours["card"]) >= 3, drawn


TINY = 5e-324
# Of points: mean, minimum, maximum.
EXTREMES = {
    "far apart": [[0.0, -1e308, 1e308], [1e308, 1e308, 1e308]],
    "large": [[1.797e308] * 3],
    "the largest": [[0.0, -1e100, 1e100], [1e100] * 3],
    "tiny": [[TINY / 2, 0.0, TINY], [0.0, 0.0, TINY]],
    "tiny steps": [[1.0, 1.0, 1.0000000000000002], [1e100, 1e100, 1.0000000000000002e100]],
    "no numbers": [[math.nan] * 3, [math.inf] * 3, [None] * 3],
}


@pytest.mark.parametrize("extreme", EXTREMES)
def test_what_one_device_measures_costs_the_others_no_chart(extreme):
    facts = made_facts.fleet(3)
    good = facts["measurements"]["attic-0"][0]
    points = [[made_facts.START + 60 * n, *rest] for n, rest in enumerate(EXTREMES[extreme])]
    low, high = points[0][2:]
    bad = good | {"points": points, "min": low, "max": high, "mean": points[0][1], "p50": low, "p95": high}
    facts["measurements"] = {"evil": [bad, good | {"name": "good"}, bad | {"unit": "B"}], "attic": [good]}
    page = read(render(facts))
    drawn = [list(figure.all("svg")) for figure in page.one(id="measurements").all("figure")]
    assert len(drawn) == 4 and drawn[1] and drawn[3]
    left_out = [figure.text.count("not drawn") for figure in page.one(id="measurements").all("figure")]
    assert bool(left_out[0]) == (extreme not in ("the largest", "tiny")) and left_out[1] == left_out[3] == 0
    numbers = json.loads(page.one("script", id="points").text, parse_constant=pytest.fail)
    assert {"m0-1", "m1-0"} <= numbers.keys()
    for figure in page.one(id="measurements").all("figure"):
        assert not re.search(r"nan|inf", "".join(path.attributes["d"] for path in figure.all("path")))


def test_the_top_says_how_old_the_figures_are():
    facts = made_facts.fleet(3)
    facts |= {"made": facts["until"] + 120, "unread": {"files": 3, "bytes": 40 << 20, "stale": 0}}
    facts["batch"] = 1204
    facts["collectors"] = [
        {"by": f"c{n}", "seen": facts["until"], "marked": facts["until"] - 3480, "queue_s": 0.25, "doubt": None}
        for n in range(5)
    ]
    facts["collectors"][0] |= {"marked": None, "queue_s": None}
    assert plain(read(render(facts)).one("p", id="fresh")) == (
        "Newest message 2 min old · collector c0: no marker · collector c1: newest marker 1 h old · "
        "collector c2: newest marker 1 h old · collector c3: newest marker 1 h old · and 1 more collector · "
        "batch 1,204 · 3 landing files not in the tables (40 MB)"
    )


def cells(row):
    return [plain(cell) for cell in row.all() if cell.tag in ("th", "td")]


def test_what_each_collector_has_counted():
    facts = made_facts.fleet(3) | {"batch": 7, "unread": {"files": 1, "bytes": 2048, "stale": 0}}
    facts["collectors"] = [
        {"by": name, "seen": made_facts.START, "marked": made_facts.START, "queue_s": 0.25, "doubt": None}
        for name in ("away", "here")
    ]
    figures = {"messages": 4500, "messages_s": 12.5, "dup": 4, "truncated": 3, "reconnects": 2, "errors": 1, "files": 9}
    lag = {"mean": 4.5, "max": 1200.0}
    facts["counters"] = [{"by": "here", "at": facts["made"] - 30, "connected": True, "lag_ms": lag, **figures}]
    page = read(render(facts))
    assert plain(page.one("p", id="batch")).startswith("Batch 7 is the last one in the tables · 1 landing")
    away, here = (cells(row) for row in list(page.one("table", id="collectors").all("tr"))[1:])
    assert away[:2] == ["away", "unknown"] and away[7] == "250 ms" and set(away[9:]) == {"–"}
    assert here[:4] == ["here", "connected", "30 s ago", "4,500"] and here[5:8] == ["4 ms", "1.2 s", "250 ms"]
    assert here[9:] == ["4", "3", "2", "1", "9"]


@pytest.mark.parametrize(
    ("s", "connected", "state"),
    [(599, True, "connected"), (601, True, "silent"), (601, False, "not connected"), (-5, True, "connected")],
)
def test_a_collector_that_was_killed_is_not_called_connected(s, connected, state):
    """Its file still says so."""
    facts = made_facts.fleet(3)
    lag = {"mean": 4.5, "max": 1200.0}
    facts["counters"] = [{"by": "c", "at": facts["made"] - s, "connected": connected, "lag_ms": lag}]
    _, row = read(render(facts)).one("table", id="collectors").all("tr")
    assert cells(row)[1] == state


def test_a_group_is_shown_with_its_devices_and_in_sums():
    page = read(render(changed(group="esp32", board="esp32")))  # its first device tells no group
    assert ["north" in body.text for body in page.one(id="devices-table").all("tbody")] == [False, True]
    facts = made_facts.fleet(2)
    facts["groups"] = facts["groups"][:1]
    assert not list(read(render(facts)).all("table", id="groups"))
    none = dict.fromkeys(("silent", "nearly_full", "lost", "dead_letters"), 0)
    facts["groups"] = [none | {"group": "north", "devices": 1200, "lost": 3}, none | {"group": "rp2", "devices": 1}]
    rows = list(read(render(facts)).one("table", id="groups").one("tbody").all("tr"))
    assert [cell.text.strip() for cell in rows[0].all()][-5:] == ["1,200", "0", "0", "3", "0"]
    assert rows[0].one("th").text == "north" and rows[1].one("th").text == "rp2"
