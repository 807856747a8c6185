"""The table of results: its page is what its source says, its commands exist, and no other page reports a run."""

import re
import shlex

import pytest

from host_tests.docs.pages import CHECKOUT
from host_tests.docs.test_code import CHECKS
from host_tests.docs.test_pages import PAGES
from tools import results


def test_the_page_is_what_the_source_says():
    assert results.PAGE.read_text() == results.page(), "run .venv/bin/python -m tools.results"


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.parametrize("command", sorted({run["command"] for run in results.runs()}))
def test_a_command_exists(command):
    words = shlex.split(command)
    while re.fullmatch(r"[A-Z_0-9]+=\S*", words[0]):  # a variable of the environment
        del words[0]
    CHECKS[words[0]](words[1:])


RUN = {
    "note": "",
    "what": "soak",
    "command": "make soak",
    "date": "2026-11-23",
    "tree": "17f5456",
    "cases": "",
    "failures": "",
    "where": "",
}


@pytest.mark.parametrize(
    "wrong", [{"note": "x" * 121}, {"note": "two\nlines"}, {"cases": "1 | 2"}, {"seed": "7"}], ids=str
)
def test_a_wrong_run_is_refused(wrong, tmp_path, monkeypatch):
    lines = [f"{name} = '''{text}'''\n" for name, text in (RUN | wrong).items()]
    monkeypatch.setattr(results, "SOURCE", tmp_path / "results.toml")
    results.SOURCE.write_text("".join(["[[run]]\n", *lines]))
    with pytest.raises(ValueError, match="results.toml: 'soak'"):
        results.runs()


# --- no other page reports a run ---

REPORT = re.compile(
    r"\bSeen\b"
    r"|\bseen (with|on (the|an) emulated)\b"
    r"|\bseeds? \d"
    r"|\bin (one|that|another|an earlier) run\b|\bThat run\b"
    r"|\(20\d\d-\d\d-\d\d[,:)]"
    r"|\b\d[\d,]* (power cuts|messages accepted|inputs|tests passed|connections)\b"
    r"|\ban? (otherwise )?(busy|idle|loaded) machine\b"
)
_ELSEWHERE = re.compile(
    r"<!-- measured: begin -->.*<!-- measured: end -->"  # what `make bench-pipeline` prints
    r"|!\[.*?\]",  # what a drawing shows
    re.S,
)


def _reports(text):
    text = " ".join(_ELSEWHERE.sub("", text).split())
    return [text[max(found.start() - 40, 0) : found.end() + 40] for found in REPORT.finditer(text)]


_OTHERS = [page for page in PAGES if page != results.PAGE]


@pytest.mark.parametrize("page", _OTHERS, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_no_other_page_reports_a_run(page):
    assert not _reports(page.read_text()), "a [[run]] of docs/results.toml belongs there"


@pytest.mark.parametrize(
    "text",
    [
        "Seen (seed 3061): nothing",
        "with MQTT 5 (`CUTS=16000`, seeds 177 and 354)",
        "Seen on the emulated Pico W",
        "124,000 power cuts later",
        "1,275 inputs of a corpus",
        "On an idle machine",
    ],
)
def test_reports_are_recognised(text):
    assert _reports(text)
