"""What a report tells of the change since the one that it replaces."""

import json

import pytest

from host_tests.tools.fleet.report import made_facts
from host_tests.tools.fleet.report.reading import read
from inflight_tools.fleet.report import change, render


@pytest.fixture
def page(tmp_path):
    """A report without losses, in a file."""
    path = tmp_path / "report.html"
    path.write_text(render(made_facts.fleet(9)), encoding="utf-8")
    return path


def later(facts, **sums):
    facts["made"] += 3600
    facts["fleet"] |= sums
    return facts


def test_sums_and_silent_devices(page):
    before = made_facts.fleet(9)["fleet"]
    facts = later(made_facts.losing(3, devices=9), delivered=before["delivered"] + 12_000)
    for one in facts["devices"][2:4]:
        one["silent"] = 7200.0
    facts["fleet"]["silent"] = 2
    found = change(page, facts)
    assert found["since"] == facts["made"] - 3600
    assert {name: n for name, n in found["figures"].items() if n} == {"delivered": 12_000, "lost": 3, "silent": 2}
    assert (found["silent"], found["heard"]) == (["garage-3", "roof-2"], [])
    words = read(render(facts, changed=found)).one("p", id="change").text
    for told in ("since the report of 2023-11-15 ", "delivered +12,000 · lost +3", "2 devices newly silent: gar"):
        assert told in words
    page.write_text(render(facts, changed=found), encoding="utf-8")
    assert change(page, made_facts.fleet(9)) is None  # the clock was set back
    facts = later(later(made_facts.fleet(9)))
    found = change(page, facts)
    assert found["heard"] == ["garage-3", "roof-2"] and found["figures"]["lost"] == -3
    assert "lost −3" in read(render(facts, changed=found)).one("p", id="change").text


def test_nothing_has_changed(page):
    found = change(page, later(made_facts.fleet(9)))
    assert read(render(made_facts.fleet(9), changed=found)).one("p", id="change").text.endswith(": nothing.")


def test_other_fleets_and_times_are_not_compared(page):
    for name, value in (("root", "other"), ("asked", [made_facts.START, None])):
        assert change(page, later(made_facts.fleet(9)) | {name: value}) is None


def test_a_console_keeps_no_figures():
    assert 'id="figures"' not in render(made_facts.fleet(3), "7-1")


def test_without_a_report_nothing_is_told(tmp_path):
    assert change(tmp_path / "none.html", made_facts.fleet(3)) is None
    assert change(tmp_path, made_facts.fleet(3)) is None
    assert not list(read(render(made_facts.fleet(3))).all("p", id="change"))


def damaged(figures):
    yield b"\xff\xfe"
    yield b"<html>"
    whole = json.dumps(figures)
    for text in (whole[:50], "7", "[]", "{}", "[" * 100_000, *(json.dumps(figures | one) for one in WRONG)):
        yield f'<script id="figures" type="application/json">{text}</script>'.encode()


WRONG = (
    {"made": "soon"}, {"made": float("nan")}, {"made": True}, {"fleet": {}}, {"fleet": 7}, {"silent": None},
    {"silent": [["a"]]}, {"fleet": dict.fromkeys(made_facts.empty()["fleet"], "1")},
)  # fmt: skip


def test_a_report_that_cannot_be_read_is_none(page):
    kept = page.read_text(encoding="utf-8").partition('id="figures" type="application/json">')[2]
    kept = json.loads(kept.partition("</script>")[0])
    for content in damaged(kept):
        page.write_bytes(content)
        assert change(page, later(made_facts.fleet(9))) is None, content[:90]
