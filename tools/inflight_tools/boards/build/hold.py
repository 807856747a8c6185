"""What each message runs through, and many clients do not need, is loaded once, when it is first needed, and stays: an
import in its place would take time and heap with every message. A function of the core returns the module. No source
says so: there it is methods like others."""

import ast

from inflight_tools.boards.build.loading import HELD, PACKAGE
from inflight_tools.boards.build.names import FUNCTIONS, walk

_HOLD = f"""
_{{0}} = None
def load_{{0}}():
    global _{{0}}
    if not _{{0}}:
        import {PACKAGE}.{{0}} as module
        _{{0}} = module
    return _{{0}}
"""


def hold(trees):
    """`trees`, {place: ast.Module}, are changed in place: what calls functions of the modules HELD asks that
    function for the module."""
    for name in HELD:
        if f"{PACKAGE}/{name}" not in trees:
            continue
        for place, tree in trees.items():
            held = _Held(name)
            for function in [node for node in walk(tree) if isinstance(node, FUNCTIONS)]:
                held.visit(function)
            if place == f"{PACKAGE}/core":
                tree.body += ast.parse(_HOLD.format(name)).body
            elif held.imported:
                tree.body[:0] = ast.parse(f"from {PACKAGE}.core import load_{name}").body


class _Held(ast.NodeTransformer):
    """In functions: imports of the module `name` go, and what they have imported is looked up there."""

    def __init__(self, name):
        self._name = name
        self.imported = set()

    def visit_ImportFrom(self, node):
        if node.module != f"{PACKAGE}.{self._name}":
            return node
        self.imported |= {alias.name for alias in node.names}
        return None

    def visit_Name(self, node):
        if node.id not in self.imported:
            return node
        return ast.Attribute(ast.parse(f"load_{self._name}()", mode="eval").body, node.id, ast.Load())
