"""Replays every script that once showed a defect: as it was, and by `make crash` with its cuts at other operations."""

import pytest

from host_tests.thorough import ALL_CUTS
from tools.crash import kept


@pytest.mark.parametrize("path", kept.scripts(), ids=lambda path: path.stem)
def test_kept(path):
    script = kept.load(path)
    kept.replay(script)
    if ALL_CUTS:
        kept.replay_nearby(script)


def test_format_of_a_kept_script():
    cuts = [[3, ["torn", 5, 90], None, True]]
    text = kept.text({"age": 2}, [["connect"], ["arrive", 1]], cuts, "lost")
    assert text == (
        '{\n "why": "lost",\n "setup": {"age": 2},\n "steps": [\n  ["connect"],\n  ["arrive", 1]\n ],\n "cuts": [\n'
        '  [3, ["torn", 5, 90], null, true]\n ]\n}\n'
    )
