"""Tests of tools/inflight_tools/boards/loading.py: its tables name modules of the library, and agree."""

from pathlib import Path

from inflight_tools.boards import loading

LIBRARY = Path(__file__).parents[3] / "lib/inflight"
MODULES = {path.stem for path in LIBRARY.rglob("*.py")} - {"cpython"}
MADE = {"texts", *loading.GROUPS, *loading.SELDOM}  # by the build


def test_the_tables_name_modules():
    assert not MADE & MODULES - {"texts"}
    assert set(loading.MERGED) <= MODULES and set().union(*loading.FAMILIES) <= MODULES
    for names in (loading.PUBLIC, loading.KNOWN, loading.LENT, loading.COLLECTED, loading.RESIDENT, loading.FIRST):
        assert len(set(names)) == len(names) and set(names) <= MODULES | MADE


def test_a_module_is_loaded_in_one_way():
    assert not {*loading.MERGED, *loading.RESIDENT, *loading.COLLECTED, *loading.KNOWN} & {*loading.LENT}
    assert {*loading.PUBLIC} <= {*loading.MERGED} and {*loading.COLLECTED} <= {*loading.RESIDENT}
