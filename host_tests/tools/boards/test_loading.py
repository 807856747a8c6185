"""Tests of tools/inflight_tools/boards/loading.py: its tables name modules of the library, and agree."""

import ast
from pathlib import Path

import pytest

from inflight_tools.boards import loading
from inflight_tools.boards.names import defined

LIBRARY = Path(__file__).parents[3] / "lib/inflight"
MODULES = {path.stem for path in LIBRARY.rglob("*.py")} - {"cpython"}
MADE = {"texts", *loading.APART, *loading.GROUPS, *loading.SELDOM}  # by the build


def test_the_tables_name_modules():
    assert not MADE & MODULES and {home for home, _ in loading.APART.values()} <= MODULES
    assert {*loading.MERGED}.union(*loading.FAMILIES) <= MODULES | {*loading.APART}
    for names in (loading.PUBLIC, loading.KNOWN, loading.LENT, loading.COLLECTED, loading.RESIDENT, loading.FIRST):
        assert len(set(names)) == len(names) and set(names) <= MODULES | MADE


@pytest.mark.parametrize("home", sorted({home for home, _ in loading.APART.values()}))
def test_what_stands_apart_is_there(home):
    (file,) = LIBRARY.rglob(f"{home}.py")
    there = {name for node in ast.parse(file.read_text()).body for name in defined(node)}
    assert {name for other, names in loading.APART.values() if other == home for name in names} <= there


def test_a_module_is_loaded_in_one_way():
    assert not {*loading.MERGED, *loading.RESIDENT, *loading.COLLECTED, *loading.KNOWN} & {*loading.LENT}
    assert {*loading.PUBLIC} <= {*loading.MERGED} and {*loading.COLLECTED} <= {*loading.RESIDENT}
