"""Methods that few messages need stand in modules of their own on a board, which are lent when one of them is called:
each method that is always there costs some 40 bytes of heap beside its bytecode. No source says so: in the checkout a
class has all its methods.

The class finds such a method by __getattr__. A method that a subclass calls by super() has to stay."""

import ast

from inflight_tools.boards.build.loading import PACKAGE, SELDOM
from inflight_tools.boards.build.names import defined, variables_of, walk
from inflight_tools.boards.build.rename import names_of, short_words

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
    module: {class: names of its methods as they are now}}."""
    core = tables.get(f"{PACKAGE}/core", {})
    used = {name for origin, _ in table.values() if origin in trees for name in names_of(trees[origin])}
    constructors = short_words(used)
    return {
        place: _take_out(trees, place, origin, methods, tables.get(origin, {}), core.get("lent", "lent"), constructors)
        for place, (origin, methods) in table.items()
        if origin in trees
    }


def _take_out(trees, place, origin, methods, renamed, lent, constructors):
    tree = trees[origin]
    functions = []
    found = {}
    for cls, names in methods.items():
        of = _class(tree, renamed.get(cls, cls)) if cls else tree
        if not of:
            continue  # boards differ
        own = {renamed.get(name, name) for name in names}
        mine = [node for node in of.body if isinstance(node, ast.FunctionDef) and node.name in own]
        for function in mine:
            of.body.remove(function)
            if function.name == "__init__":
                _call_base(function, of)
                function.name = next(constructors)
                of.body[:0] = ast.parse(_START.format(function.name)).body
        functions += mine
        if cls:
            found[of.name] = [function.name for function in mine]
        else:
            _readdress(trees, origin, {function.name for function in mine}, place)
    words = short_words({name for function in functions for name in names_of(function)})
    word = next(words)
    head = ast.parse(f"from {PACKAGE}.core import {lent} as {word}")
    head.body += ast.parse(f"{word}.append('{place.rpartition('/')[2]}')").body
    head.body += _imports(functions, tree, origin, words)
    private = {renamed.get(name, name) for names in methods.values() for name in names if name.startswith("_")}
    _call_each_other(functions, private)
    trees[place] = ast.Module([*head.body, *functions], [])
    return found


def _readdress(trees, origin, names, place):
    # Functions of a module: whoever imports them has nothing else from there in that statement.
    for tree in trees.values():
        for node in walk(tree):
            if (
                isinstance(node, ast.ImportFrom)
                and node.module == origin
                and names.issuperset(a.name for a in node.names)
            ):
                node.module = place


def _class(tree, name):
    return next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)


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
    """Tells core where the library's methods are. found: of take_out(); short: {place: its place by a short name}."""
    name = tables.get(f"{PACKAGE}/core", {}).get("_SELDOM", "_SELDOM")
    for node in trees[f"{PACKAGE}/core"].body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            node.value = _rows({short[place]: sum(names.values(), []) for place, names in found.items()})


def ask(trees, tables, found, table):
    """Tells each class of `table` where its methods and its base's methods are."""
    word = tables.get(f"{PACKAGE}/core", {}).get("seldom", "seldom")
    for origin in dict.fromkeys(table[place][0] for place in found):
        classes = {cls for place, methods in found.items() if table[place][0] == origin for cls in methods}
        for of in [_class(trees[origin], cls) for cls in sorted(classes)]:
            family = {of.name, *map(ast.unparse, of.bases)}
            rows = {
                place: [name for cls, names in methods.items() if cls in family for name in names]
                for place, methods in found.items()
                if family.intersection(methods)
            }
            text = f"def __getattr__(self, name):\n    return {word}(self, name, {ast.unparse(_rows(rows))})"
            of.body += ast.parse(text).body
        trees[origin].body[:0] = ast.parse(f"from {PACKAGE}.core import {word}").body


def _rows(found):
    rows = tuple((place.replace("/", "."), tuple(names)) for place, names in found.items())
    return ast.parse(repr(rows), mode="eval").body
