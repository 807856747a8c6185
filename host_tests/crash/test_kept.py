"""Every script that once showed a defect, played again: as it was, and with its cuts at other operations."""

import pytest

from host_tests.crash import kept


@pytest.mark.parametrize("path", kept.scripts(), ids=lambda path: path.stem)
def test_kept(path):
    script = kept.load(path)
    kept.replay(script)
    kept.look_around(script)


def test_how_a_script_is_kept():
    cuts = [[3, ["torn", 5, 90], None, True]]
    text = kept.text({"age": 2}, [["connect"], ["up", 1]], cuts, "lost")
    assert text == (
        '{\n "why": "lost",\n "setup": {"age": 2},\n "steps": [\n  ["connect"],\n  ["up", 1]\n ],\n "cuts": [\n'
        '  [3, ["torn", 5, 90], null, true]\n ]\n}\n'
    )
