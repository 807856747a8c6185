"""Modules that are needed seldom are lent: what an import inside a function has loaded is given back when the function
is through. No source says so: in the checkout such an import is an import.

Each of these modules notes its name when it is loaded. Behind the statements that follow such an import the names that
are newer than the import are given back, with the modules that those have imported themselves. Whoever finds a module
that is there already leaves it to the one who has loaded it. So a function that needs one module in several calls
imports it first."""

import ast

from inflight_tools.boards.build.loading import BORROWED, COLLECTED, LENT, PACKAGE
from inflight_tools.boards.build.names import FUNCTIONS, blocks, children, variables_of, walk
from inflight_tools.boards.build.rename import names_of

_PLACES = {*BORROWED, *(f"{PACKAGE}/{name}" for name in (*LENT, *COLLECTED))}
_OF_FORMATS = ("array", "pack", "pack_into", "unpack", "unpack_from")
# Before them all: nothing is given back any more, and the heap is collected when it is full, which takes 10 to 45 ms.
_KEEP = f"""
import gc
from {PACKAGE}.core import lent
lent.insert(0, None)
gc.threshold(-1)
"""
# It is collected at once: what is allocated next would lie between what is free, and leave fragments of it.
_GIVE_BACK = f"""
lent = []
def give_back(n):
    if len(lent) > n and lent[0] is not None:
        while len(lent) > n:
            module = lent.pop()
            if sys.modules.pop("{PACKAGE}." + module, None):
                delattr(sys.modules["{PACKAGE}"], module)
            sys.modules.pop(module, None)
        gc.collect()
"""


def lend(trees, keeping=None):
    """`trees`, {place: ast.Module}, are changed in place. keeping: the place of the module with which nothing is given
    back any more. ValueError if a function uses what it borrows elsewhere."""
    core = trees[f"{PACKAGE}/core"]
    core.body[:0] = ast.parse("import gc, sys").body
    core.body += ast.parse(_GIVE_BACK).body
    if keeping:
        trees[keeping].body[:0] = ast.parse(_KEEP).body
    for place, tree in trees.items():
        name = place.removeprefix(f"{PACKAGE}/")
        nodes = walk(tree)
        borrows = 0
        if any(_borrowed(node, place) for node in nodes):
            for node in nodes:
                if isinstance(node, FUNCTIONS):
                    borrows += _lend_in(node, place)
        noted = name if name in (*LENT, *BORROWED) else "" if name in COLLECTED else None
        words = [word for word, used in (("lent", borrows or noted is not None), ("give_back", borrows)) if used]
        if words and tree is not core:
            tree.body[:0] = ast.parse(f"from {PACKAGE}.core import {', '.join(words)}").body
        if noted is not None:
            tree.body[1:1] = ast.parse(f"lent.append('{noted}')").body
            _make_formats_bytes(nodes)


def _make_formats_bytes(nodes):
    # A str of ten characters at most is a name, which stays when its module is given back.
    for node in nodes:
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).rpartition(".")[2] in _OF_FORMATS:
            words = node.args[0]
            if isinstance(words, ast.Constant) and isinstance(words.value, str):
                words.value = words.value.encode()


def _lend_in(function, place):
    """True if `function` borrows something."""
    lent = {name for node in _within(function) for name in _borrowed(node, place)}
    if not lent:
        return False
    for node in walk(function):
        if isinstance(node, (ast.Lambda, ast.GeneratorExp)) and lent.intersection(names_of(node)):
            raise ValueError(f"{place}: {function.name}() may hand on what it borrows")
    if "loaded" in variables_of(function):
        raise ValueError(f"{place}: {function.name}() has a variable `loaded`: name it otherwise")
    inside = set()
    _lend_block(function.body, place, inside)
    for node in walk(function):
        if isinstance(node, ast.Name) and node.id in lent and id(node) not in inside:
            raise ValueError(f"{place}: {function.name}() uses {node.id} behind the block that imports it")
    return True


def _lend_block(block, place, inside):
    # From such an import on, the statements of a block up to the last one that uses what is borrowed become a `try`.
    for i, statement in enumerate(block):  # which grows
        if _borrowed(statement, place):
            n, last = 0, 1
            while n < last:
                n = last
                names = {name for each in block[i : i + n] for node in _within(each) for name in _borrowed(node, place)}
                last = max(k for k, each in enumerate(block[i:], 1) if k <= n or names.intersection(names_of(each)))
            targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in sorted(names)]
            end = [ast.Assign(targets, ast.Constant(None)), *ast.parse("give_back(loaded)").body]
            block[i : i + n] = [*ast.parse("loaded = len(lent)").body, ast.Try(block[i : i + n], [], [], end)]
            inside |= {id(node) for each in block[i : i + 2] for node in walk(each)}
        elif id(statement) not in inside and not isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            for child in blocks(statement):
                _lend_block(child, place, inside)


def _within(node):
    """`node` and what stands in it, without functions in it."""
    yield node
    for child in children(node):
        if not isinstance(child, FUNCTIONS):
            yield from _within(child)


def _borrowed(node, place):
    """The names that an import of lent modules binds."""
    if isinstance(node, ast.ImportFrom) and _imported(node, place) in _PLACES:
        return {alias.asname or alias.name for alias in node.names}
    return set()


def _imported(node, place):
    return f"{place.rpartition('/')[0]}/{node.module}" if node.level else (node.module or "").replace(".", "/")
