"""Tests use what modules offer to each other: how many private names of the product they access may only fall."""

import ast
import itertools
import re
from collections import Counter

from tools.setup.common import CHECKOUT

TESTS = CHECKOUT / "host_tests"
PRODUCT = [CHECKOUT / name for name in ("lib", "boards", "firmware", "tools")]
PRIVATE = re.compile(r"_[a-z]\w*")
IN_CODE = re.compile(r"(?<![\w.])(?!self\.|cls\.)[\w.()\[\]]+\.(_[a-z]\w*)")
# The accesses that are left. Lower it when you replace one.
MOST = 24


def is_own(node):
    """True for `self` and `cls`."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def defined(tree, of_others=False):
    """Yields the private names that a module defines: functions, classes, variables, attributes; of_others: also
    attributes of other objects than self and cls, as a function that makes one sets them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and (of_others or is_own(node.value)):
            yield node.attr


def accessed(tree):
    """Yields (private name, True if it is one of a base class) for each access to an attribute of anything but self
    and cls, by its name or by a string, and for each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not is_own(node.value):
            yield node.attr, isinstance(node.value, ast.Call) and ast.unparse(node.value.func) == "super"
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.name, True) for alias in node.names)
        elif isinstance(node, ast.Call | ast.Tuple):
            items = node.args if isinstance(node, ast.Call) else node.elts
            for thing, name in itertools.pairwise(items):
                if isinstance(thing, ast.Name | ast.Attribute) and isinstance(name, ast.Constant):
                    yield name.value, False  # setattr(thing, "_name", value)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((name, False) for name in IN_CODE.findall(node.value))  # a program that a test runs


def accesses():
    """{test file: how often it accesses a private name of the product, and not of its own}."""
    found = []
    for path in TESTS.rglob("*.py"):
        tree = ast.parse(path.read_text())
        own = set(defined(tree))
        names = [name for name, of_base in accessed(tree) if isinstance(name, str) and (of_base or name not in own)]
        found += [(path.relative_to(TESTS).as_posix(), name) for name in names if PRIVATE.fullmatch(name)]
    asked = {name for _, name in found}
    texts = [path.read_text() for folder in PRODUCT for path in folder.rglob("*.py")]
    texts = [text for text in texts if any(name in text for name in asked)]
    known = {name for text in texts for name in defined(ast.parse(text), True)}
    return Counter(file for file, name in found if name in known)


def test_no_more_private_names_are_accessed():
    found = accesses()
    assert found.total() <= MOST, "\n".join(f"{n} in {name}" for name, n in found.most_common())
