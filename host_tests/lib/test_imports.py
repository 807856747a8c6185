"""Which module of the library knows which."""

import ast
from graphlib import CycleError, TopologicalSorter

import pytest

from inflight_tools.boards.bundle import library


def imported(text):
    """The modules of the library that a module imports, at its top or in its functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name[9:] for alias in node.names if alias.name.startswith("inflight."))


def check(texts):
    """Raises CycleError with a circle of imports, if there is one."""
    TopologicalSorter({name: {*imported(text)} for name, text in texts.items()}).prepare()


def test_no_import_leads_back():
    """Not from a function either: whoever reads a module needs to know only those below it."""
    check({place.partition("/")[2]: file.read_text() for place, file in library().items()})


def test_a_circle_is_found():
    with pytest.raises(CycleError) as found:
        check({"a": "from .b import x", "b": "def f():\n    from .c import x", "c": "import inflight.a as a"})
    assert {*found.value.args[1]} == {"a", "b", "c"}
