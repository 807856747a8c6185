"""Tests of tools/inflight_tools/boards/build/loading.py: its tables name modules of the library, and agree."""

import ast

from inflight_tools.boards.build import loading
from inflight_tools.boards.build.names import defined
from tools.setup.common import CHECKOUT

LIBRARY = CHECKOUT / "lib/inflight"
MODULES = {path.stem for path in LIBRARY.rglob("*.py")} - {"cpython"}
MADE = {
    "texts",
    *loading.APART,
    *loading.GROUPS,
    *loading.PARTS,
    *(place.rpartition("/")[2] for place in loading.SELDOM),
}  # by it


def test_the_tables_name_modules():
    assert not MADE & MODULES and {home for home, _ in loading.APART.values()} <= MODULES
    assert {*loading.MERGED} <= MODULES | {*loading.APART}
    for names in (loading.PUBLIC, loading.KNOWN, loading.LENT, loading.COLLECTED, loading.RESIDENT, loading.FIRST):
        assert len(set(names)) == len(names) and set(names) <= MODULES | MADE


def test_those_of_the_application_name_modules_and_methods():
    """On some board each: boards differ. A Radio is a Wifi, too."""
    texts = [file.read_text() for folder in ("boards", "firmware") for file in (CHECKOUT / folder).rglob("*.py")]
    names = {path.stem for folder in ("boards", "firmware") for path in (CHECKOUT / folder).rglob("*.py")}
    homes = [home for home, _ in loading.OCCASIONAL.values()]
    assert {*loading.BORROWED, *loading.TEXTS}.union(homes, *loading.TOGETHER.values()) <= names
    assert not {*loading.OCCASIONAL} & names
    for cls, methods in [row for _, classes in loading.OCCASIONAL.values() for row in classes.items()]:
        # Of the class, or of its base, which may have become a part of it.
        found = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
        bases = {ast.unparse(base) for of in found if of.name == cls for base in of.bases}
        own = [of for of in found if of.name == cls or of.name in bases] if cls else map(ast.parse, texts)
        there = {node.name for of in own for node in ast.walk(of) if isinstance(node, ast.FunctionDef)}
        assert {*methods} <= there


def test_what_stands_apart_is_there():
    for home, names in loading.APART.values():
        (file,) = LIBRARY.rglob(f"{home}.py")
        body = ast.parse(file.read_text()).body
        classes = [node for node in body if isinstance(node, ast.ClassDef)]
        methods = {f"{cls.name}.{name}" for cls in classes for node in cls.body for name in defined(node)}
        assert {*names} <= methods.union(*map(defined, body))


def test_a_module_is_loaded_in_one_way():
    assert not {*loading.MERGED, *loading.RESIDENT, *loading.COLLECTED, *loading.KNOWN} & {*loading.LENT}
    assert {*loading.PUBLIC} <= {*loading.MERGED} and {*loading.COLLECTED} <= {*loading.RESIDENT}
