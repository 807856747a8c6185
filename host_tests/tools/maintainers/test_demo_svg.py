"""The drawing of a demonstration for the documentation."""

from xml.etree import ElementTree

import pytest

from tools.demo.demo_svg import draw

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
_TEXT = "{http://www.w3.org/2000/svg}text"
LINES = [
    (0.0, "2 sensors; 3 power cuts in 30 s; seed <1>"),
    (3.0, "  3.0 s  2 power cuts, 400 messages accepted, 380 delivered"),
    (30.0, " 30.0 s  3 power cuts, 1399 messages accepted, 1390 delivered"),
    (33.0, " 33.0 s  1400 messages accepted, waiting for the last of them"),
    (33.0, "power cuts survived: 4   broker restarts: 2"),
    (36.0, "Nothing was lost, no QoS 2 message came twice, each is in the tables once."),
]


def test_it_shows_each_line_when_it_came():
    root = ElementTree.fromstring(draw(LINES))
    texts = ["".join(one.itertext()) for one in root.iter(_TEXT)]
    assert texts == ["$ make demo", *(text for _, text in LINES)]
    delays = [one.get("style").partition(":")[2] for one in root.iter(_TEXT)]
    assert delays == ["0.0s", "0.0s", "1.0s", "10.0s", "11.0s", "11.0s", "12.0s"]
    title = root.find("{http://www.w3.org/2000/svg}title").text
    assert title == "make demo: 4 power cuts, 1,400 messages accepted, none lost"


@pytest.mark.parametrize("lines", [[], LINES[:-1], LINES[4:]])
def test_only_a_demonstration_that_lost_nothing(lines):
    with pytest.raises(ValueError, match="no output of a demonstration"):
        draw(lines)
