"""Small functions stand in place of their calls on a board, and do the same there."""

import ast

import pytest

from inflight_tools.boards.build.bundle import library
from inflight_tools.boards.build.inline import inline
from inflight_tools.boards.build.loading import INLINED

_CLASS = """
class Pump:
    def __init__(self):
        self.log = []
        self.on = 0

    @property
    def busy(self):
        return self.on or len(self.log) > 9

    def flow(self, n, times=2):
        i = n * times
        self.log.append(i)
        return i + LIMIT

    def limited(self, n):
        return n if n < LIMIT else LIMIT

    def stop(self):
        try:
            self.log.remove(8)
        except ValueError as e:
            self.log.append(str(e)[:3])

    def find(self, n):
        for i in self.log:
            if i == n:
                return i
        return -1

    def last(self, n):
        return self.find(n)

LIMIT = 5
"""
_CALLS = """
def play(pump, i):
    n = pump.flow(i)
    pump.flow(n, times=3)
    if pump.flow(1) > 6 and not pump.busy:
        pump.stop()
    while pump.limited(i) < LIMIT and not pump.busy:
        i += 1
        pump.stop()
    if i < 0:
        return pump.log
    elif pump.flow(i) == n:
        n = (pump.flow(n) - 1) // 2
    return [i, n, pump.limited(n), pump.last(15), pump.last(2), pump.busy, pump.log]
"""


@pytest.mark.parametrize("i", [-1, 2, 5])
def test_does_the_same(i):
    """In statements and expressions; its variables are none of its caller's."""
    tree = ast.parse(_CLASS + _CALLS)
    trees = {"inflight/a": tree}
    inline(trees, ["busy", "flow", "limited", "stop", "find"])
    results = []
    for text in (_CLASS + _CALLS, ast.unparse(ast.fix_missing_locations(tree))):
        module = {}
        exec(text, module)
        results.append(module["play"](module["Pump"](), i))
    assert results[0] == results[1]
    assert [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)] == ["play", "__init__", "last"]


@pytest.mark.parametrize(
    ("name", "calls", "why"),
    [
        ("flow", "def f(pump): return 1 + pump.flow(2)", "cannot stand"),
        ("find", "def f(pump): n = pump.find(2)", "cannot stand"),
        ("limited", "def f(pump): return 1 + pump.limited(input())", "again and again"),
        ("stop", "def stop(): pass", "2 functions have the name stop"),
        ("begin", "", "0 functions"),
        ("flow", "def f(pump): return pump.flow(pump.flow(1))", "cannot stand where it is called"),
        ("flow", "def f(pump): return pump.flow(n=input())", "cannot stand where it is called"),
        ("flow", "def f(pump): return {print(): pump.flow(1)}", "cannot stand"),
        ("limited", "def f(pump, LIMIT): return pump.limited(1)", "has a variable LIMIT"),
        ("g", "def g(): yield 1", "cannot stand in place"),
        ("g", "async def g(): pass", "cannot stand in place"),
        ("g", "def g(*, a): return a", "cannot stand in place"),
        ("g", "def g(a=[]): return a", "cannot stand in place"),
    ],
)
def test_what_would_mean_something_else_is_refused(name, calls, why):
    with pytest.raises(ValueError, match=why):
        inline({"inflight/a": ast.parse(_CLASS + calls)}, [name])


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("inflight/b", r"limited\(\) is called in inflight/b, and needs LIMIT of inflight/a"),
        ("app", r"app calls limited\(\), which is none"),
    ],
)
def test_calls_of_other_modules(place, why):
    trees = {"inflight/a": ast.parse(_CLASS), place: ast.parse("def f(pump): return pump.limited(1)")}
    with pytest.raises(ValueError, match=why):
        inline(trees, ["limited"])


def test_each_function_of_the_table_is_there():
    texts = [file.read_text() for file in library().values()]
    assert {name: sum(text.count(f"def {name}(") for text in texts) for name in INLINED} == dict.fromkeys(INLINED, 1)
