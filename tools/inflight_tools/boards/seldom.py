"""Methods that few messages need stand in modules of their own on a board, which are lent when one of them is called:
each method that is always there costs some 40 bytes of heap beside its bytecode. No source says so: in the checkout a
class has all its methods.

The class finds such a method by __getattr__. A method that a subclass calls by super() has to stay."""

import ast

from inflight_tools.boards.loading import PACKAGE, SELDOM
from inflight_tools.boards.names import defined, variables_of, walk
from inflight_tools.boards.rename import names_of, short_words

_BASE = "Base"  # the class in core by which all of these classes find them
_FIND = f"""
_SELDOM = ()
def seldom(owner, name):
    for module, names in _SELDOM:
        if name in names:
            def call(*args, **options):
                loaded = len(lent)
                try:
                    found = __import__("{PACKAGE}." + module, None, None, (name,))
                    return getattr(found, name)(owner, *args, **options)
                finally:
                    give_back(loaded)
            return call
    raise AttributeError(name)
"""
_ASK = """
def __getattr__(self, name):
    return seldom(self, name)
"""


def prepare(trees):
    """Before the names are changed: what the classes find their methods by. `trees`, {place: ast.Module}, are changed
    in place, by all functions here."""
    core = trees[f"{PACKAGE}/core"]
    core.body += ast.parse(_FIND).body
    for node in core.body:
        if isinstance(node, ast.ClassDef) and node.name == _BASE:
            node.body += ast.parse(_ASK).body


def take_out(trees, tables):
    """Takes the methods out. tables: what rename() returned. Returns {module: names of its methods as they are now}."""
    core = tables.get(f"{PACKAGE}/core", {})
    found = {}
    for module, (origin, cls, methods) in SELDOM.items():
        tree = trees.get(f"{PACKAGE}/{origin}")
        if not tree:
            continue
        table = tables.get(f"{PACKAGE}/{origin}", {})
        names = [table.get(name, name) for name in methods]
        of = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == table.get(cls, cls))
        functions = [node for node in of.body if isinstance(node, ast.FunctionDef) and node.name in names]
        for function in functions:
            of.body.remove(function)
        words = short_words({name for function in functions for name in names_of(function)})
        lent = next(words)
        head = ast.parse(f"from {PACKAGE}.core import {core.get('lent', 'lent')} as {lent}")
        head.body += ast.parse(f"{lent}.append('{module}')").body
        head.body += _imports(functions, tree, origin, words)
        _call_each_other(functions, {table.get(name, name) for name in methods if name.startswith("_")})
        trees[f"{PACKAGE}/{module}"] = ast.Module([*head.body, *functions], [])
        found[module] = names
    return found


def _call_each_other(functions, own):
    # At once: stack is short while a client connects.
    for function in functions:
        for node in walk(function):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in own and ast.unparse(called.value) == "self":
                node.args.insert(0, called.value)
                node.func = ast.Name(called.attr, ast.Load())


def _imports(functions, tree, origin, words):
    # What the functions use of their module, by other words where functions have the same names.
    known = {name for node in tree.body for name in defined(node)}
    own = {function.name for function in functions}
    wanted = {}
    for function in functions:
        variables = set(variables_of(function))
        for node in walk(function):
            if isinstance(node, ast.Name) and node.id in known and node.id not in variables:
                wanted.setdefault(node.id, next(words) if node.id in own else None)
                node.id = wanted[node.id] or node.id
    names = [ast.alias(name, wanted[name]) for name in sorted(wanted)]
    return [ast.ImportFrom(f"{PACKAGE}.{origin}", names, 0)] if names else []


def fill(trees, tables, found, short):
    """Tells core where they are. found: of take_out(); short: {place: its place by a short name}."""
    name = tables.get(f"{PACKAGE}/core", {}).get("_SELDOM", "_SELDOM")
    for node in trees[f"{PACKAGE}/core"].body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            rows = [(short[f"{PACKAGE}/{module}"].rpartition("/")[2], tuple(names)) for module, names in found.items()]
            node.value = ast.parse(repr(tuple(rows)), mode="eval").body
