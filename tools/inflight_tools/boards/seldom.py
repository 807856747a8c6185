"""Methods that few messages need stand in modules of their own on a board, which are lent when one of them is called:
each method that is always there costs some 40 bytes of heap beside its bytecode. No source says so: in the checkout a
class has all its methods.

The class finds such a method by __getattr__. A method that a subclass calls by super() has to stay."""

import ast

from inflight_tools.boards.loading import PACKAGE, SELDOM
from inflight_tools.boards.names import defined, variables_of, walk
from inflight_tools.boards.rename import names_of, short_words

_BASE = "Base"  # the class in core by which those of the library find them
_FIND = """
_SELDOM = ()
def seldom(owner, name, rows):
    for module, names in rows:
        if name in names:
            def call(*args, **options):
                loaded = len(lent)
                try:
                    found = __import__(module, None, None, (name,))
                    return getattr(found, name)(owner, *args, **options)
                finally:
                    give_back(loaded)
            return call
    raise AttributeError(name)
"""
_ASK = """
def __getattr__(self, name):
    return seldom(self, name, _SELDOM)
"""
# A constructor is no attribute that is missing.
_START = """
def __init__(self, *args):
    self.{}(*args)
"""


def prepare(trees):
    """Before the names are changed: what the classes find their methods by. `trees`, {place: ast.Module}, are changed
    in place, by all functions here."""
    core = trees[f"{PACKAGE}/core"]
    core.body += ast.parse(_FIND).body
    for node in core.body:
        if isinstance(node, ast.ClassDef) and node.name == _BASE:
            node.body += ast.parse(_ASK).body


def take_out(trees, tables, table=SELDOM):
    """Takes the methods out. tables: what rename() returned, and the words of the other modules. Returns {place of a
    module: names of its methods as they are now}."""
    core = tables.get(f"{PACKAGE}/core", {})
    found = {}
    used = {name for origin, _, _ in table.values() if origin in trees for name in names_of(trees[origin])}
    constructors = short_words(used)
    for place, (origin, cls, methods) in table.items():
        if origin not in trees:
            continue
        words = tables.get(origin, {})
        of = _class(trees[origin], words.get(cls, cls))
        renamed = {words.get(name, name): name.startswith("_") for name in methods}
        found[place] = _take_out(trees, place, origin, of, renamed, core)
        for function in trees[place].body:
            if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                function.name = next(constructors)
                of.body[:0] = ast.parse(_START.format(function.name)).body
                found[place].append(function.name)
    return found


def _class(tree, name):
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _take_out(trees, place, origin, of, names, core):
    # names: {method: whether it is private}
    tree = trees[origin]
    functions = [node for node in of.body if isinstance(node, ast.FunctionDef) and node.name in names]
    for function in functions:
        of.body.remove(function)
    words = short_words({name for function in functions for name in names_of(function)})
    lent = next(words)
    for function in functions:
        _call_base(function, of)
    head = ast.parse(f"from {PACKAGE}.core import {core.get('lent', 'lent')} as {lent}")
    head.body += ast.parse(f"{lent}.append('{place.rpartition('/')[2]}')").body
    head.body += _imports(functions, tree, origin, words)
    _call_each_other(functions, {name for name, private in names.items() if private})
    trees[place] = ast.Module([*head.body, *functions], [])
    return [function.name for function in functions if function.name != "__init__"]


def _call_base(function, of):
    # super() is for methods that stand in their class.
    for node in walk(function):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and ast.unparse(called.value) == "super()":
            called.value = of.bases[0]
            node.args.insert(0, ast.Name("self", ast.Load()))


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
    return [ast.ImportFrom(origin.replace("/", "."), names, 0)] if names else []


def fill(trees, tables, found, short):
    """Tells core where those of the library are. found: of take_out(); short: {place: its place by a short name}."""
    name = tables.get(f"{PACKAGE}/core", {}).get("_SELDOM", "_SELDOM")
    for node in trees[f"{PACKAGE}/core"].body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            node.value = _rows({short[place]: names for place, names in found.items()})


def ask(trees, tables, found, table):
    """Tells the classes of `table` where theirs are; a subclass asks for those of its base, too."""
    word = tables.get(f"{PACKAGE}/core", {}).get("seldom", "seldom")
    for origin, cls in dict.fromkeys((origin, cls) for origin, cls, _ in table.values() if origin in trees):
        of = _class(trees[origin], cls)
        family = {cls, *map(ast.unparse, of.bases)}
        rows = _rows({place: names for place, names in found.items() if table[place][1] in family})
        function = ast.parse(f"def __getattr__(self, name):\n    return {word}(self, name, {ast.unparse(rows)})")
        of.body += function.body
        trees[origin].body[:0] = ast.parse(f"from {PACKAGE}.core import {word}").body


def _rows(found):
    rows = tuple((place.replace("/", "."), tuple(names)) for place, names in found.items())
    return ast.parse(repr(rows), mode="eval").body
