"""The drawing of a report for the documentation."""

from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from host_tests.tools.fleet.report import made_facts
from inflight_tools.fleet.report import render
from tools.demo.report_svg import draw

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
_TEXT = "{http://www.w3.org/2000/svg}text"


@pytest.mark.parametrize("facts", [made_facts.fleet(), made_facts.losing(3, doubled=2, on_way=4)])
def test_it_shows_verdict_figures_and_timeline_of_the_page(facts):
    root = ElementTree.fromstring(draw(render(facts)))
    texts = ["".join(one.itertext()).strip() for one in root.iter(_TEXT)]
    fleet = facts["fleet"]
    assert any(f"{fleet['accepted']:,} messages accepted" in text for text in texts)
    assert f"{fleet['accepted']:,}" in texts and f"+ {fleet['lost']:,}" in texts and f"+ {fleet['on_way']:,}" in texts
    assert any(text.endswith("restarts (power cuts and others)") for text in texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 5


@pytest.mark.parametrize("text", ["", render(made_facts.empty())])
def test_a_page_without_a_timeline_is_refused(tmp_path, text):
    from tools.demo import report_svg

    (tmp_path / "page.html").write_text(text)
    app = report_svg.typer.Typer()
    app.command()(report_svg.main)
    words = [str(tmp_path / "page.html"), "--out", str(tmp_path / "out.svg")]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "400"})
    assert done.exit_code == 2 and "run `make demo` first" in done.output
    assert not (tmp_path / "out.svg").exists()
