"""Renames internal names so that they cost no heap. Each name that MicroPython's firmware does not contain costs some
20 bytes of heap. rom_names.txt lists names that the stock firmware of ESP32 and Pico W, and the unix port, have in ROM.

An internal name is one that the library defines (a global, a method, an attribute) and that nothing else can refer
to: it is not public, is in no string, and is not imported from elsewhere. It becomes the same word everywhere, so
tracebacks can be translated back. A global may become the same word as an attribute does: neither is taken for the
other; a private global of one module is that word in this module only, where another module can have the same word for
another one. An argument that is not public and never passed by keyword becomes any word that is unused in its function.
Variables have no names in bytecode, and stay."""

import ast
import builtins
from pathlib import Path

from inflight_tools.boards.names import uses

PACKAGE = "inflight"
# There are more names than words. What each client loads comes first: a name stays when its module is unloaded.
_LOADED = (
    "core",
    "client",
    "journal_core",
    "options",
    "client_start",
    "session_load",
    "opening",
    "handshake",
    "subscribing",
    "receiving",
    "dispatching",
    "mqtt5_core",
    "handshake5",
    "new_journal",
    "recovery",
    "sector_reader",
    "sectors",
    "contents",
    "finishing",
    "arguments",
    "pinned",
    "pinning",
    "flash",
    "synced_file",
    "posix",
)
_FIRST = [f"{PACKAGE}/{name}" for name in _LOADED]
_ROM = (Path(__file__).parent / "rom_names.txt").read_text().split()
_FIELDS = ("id", "attr", "name", "arg", "asname")  # of nodes, that hold a name
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BUILTIN = set(dir(builtins))


def rename(trees, public, used=()):
    """Renames internal names in trees, {place: ast.Module}, in place. public: names that keep their meaning; used: all
    names in modules that may work with the library, of which none is given anew, nor to what is no attribute. Returns
    {place: {original name: new name}} of the library."""
    library = {place: tree for place, tree in trees.items() if place.startswith(f"{PACKAGE}/")}
    public = {*public, *_BUILTIN}
    kept = {*public, *_ROM}
    for tree in library.values():
        kept |= {*_imported(tree), *_strings(tree), *_keywords(tree)}
    internal = {name for tree in library.values() for name in _given(tree) if name[:2] != "__"} - kept
    private = {place: internal & names for place, names in _private(library).items()}
    internal -= set().union(*private.values())
    internal &= {name for tree in library.values() if not _only_hands_on(tree) for name in uses(tree)}
    attributes = internal & set().union(used, *map(_attributes, trees.values()))
    rank = {
        name: k
        for k, place in reversed([*enumerate(_FIRST)])
        for name in names_of(library.get(place, ast.Module([], [])))
    }

    def words(names, taken):
        ordered = sorted(names, key=lambda name: (rank.get(name, len(_FIRST)), name))
        return dict(zip(ordered, _unused(taken), strict=False))

    table = words(attributes, public.union(used, *map(names_of, trees.values())))
    for tree in trees.values():
        _Rename(table).visit(tree)
    new = words(internal - attributes, public.union(used, *map(_globals_and_variables, library.values())))
    for place, tree in trees.items():
        if place in library:
            _Rename(new).visit(tree)
        else:
            _hand_on(tree, new, 0)  # by the names that the module knows; relative imports are of another package
    table |= new
    keywords = _BUILTIN.union(*map(_keywords, trees.values()))
    tables = {}
    for place, tree in library.items():
        own = dict(zip(sorted(private[place]), _unused(public.union(names_of(tree))), strict=False))
        _Rename(own).visit(tree)
        _rename_arguments(tree, public, keywords)
        tables[place] = table | own
    return tables


def _unused(used):
    return (word for word in _ROM if word not in used)


def _private(library):
    """{place: the globals of that module that no other one can refer to}."""
    elsewhere = {alias.name for tree in library.values() for node in ast.walk(tree)
                 if isinstance(node, ast.ImportFrom) for alias in node.names}  # fmt: skip
    elsewhere = elsewhere.union(*map(_attributes, library.values()))
    return {place: {name for name in _given(tree) if name[0] == "_"} - elsewhere for place, tree in library.items()}


def _attributes(tree):
    """Names of attributes, and of what a class defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ClassDef):
            yield from (one.name for one in node.body if isinstance(one, _FUNCTIONS))
            fields = (name for one in node.body if not isinstance(one, _FUNCTIONS) for name in ast.walk(one))
            yield from (one.id for one in fields if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))


def _globals_and_variables(tree):
    """Every name in a module but those of attributes; with those of methods, which tracebacks name as well."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            yield from _names_of(node)


def mentioned(text):
    """The names in the bytecode of a module, including its strings."""
    tree = ast.parse(text)
    return {*uses(tree), *_keywords(tree), *_strings(tree)}


def names_in(text):
    """The same, and the names of variables."""
    return {*names_of(ast.parse(text)), *mentioned(text)}


def names_of(tree):
    """Every name in a module, whatever it refers to."""
    for node in ast.walk(tree):
        yield from _names_of(node)


def _names_of(node):
    for field in _FIELDS:
        if isinstance(getattr(node, field, None), str):
            yield getattr(node, field)
    if isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from node.names


def _keywords(tree):
    return (node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg)


def _strings(tree):
    return (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _imported(tree):
    """What a module takes from outside the library."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not _is_ours(node)):
            for alias in node.names:
                yield from alias.name.split(".")
                yield alias.asname or alias.name


def _is_ours(node):
    return node.level > 0 or node.module.split(".")[0] == PACKAGE


def _given(tree):
    """Names that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Global):
            yield from node.names
    for node in tree.body:
        yield from (n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


class _Rename(ast.NodeTransformer):
    def __init__(self, table):
        self._table = table

    def visit_Module(self, tree):
        if _only_hands_on(tree):
            return _hand_on(tree, self._table)
        return self.generic_visit(tree)

    def generic_visit(self, node):
        for field in _FIELDS:
            if getattr(node, field, None) in self._table:
                setattr(node, field, self._table[getattr(node, field)])
        return super().generic_visit(node)

    def visit_Global(self, node):
        node.names = [self._table.get(name, name) for name in node.names]
        return node

    visit_Nonlocal = visit_Global


def _only_hands_on(tree):
    return all(isinstance(node, (ast.ImportFrom, ast.Assign)) for node in tree.body)


def _hand_on(tree, table, level=1):
    """What a module imports from the library keeps the name that it has in its source. level: of relative imports that
    are of the library, at most."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level <= level and _is_ours(node):
            node.names = [
                ast.alias(table.get(alias.name, alias.name), alias.asname or alias.name) for alias in node.names
            ]
    return tree


class _RenameLocals(ast.NodeTransformer):
    def __init__(self, table):
        self._table = table

    def visit_Name(self, node):
        node.id = self._table.get(node.id, node.id)
        return node

    def visit_arg(self, node):
        node.arg = self._table.get(node.arg, node.arg)
        return node


def _has_inner(function):
    return sum(isinstance(node, (*_FUNCTIONS, ast.Lambda)) for node in ast.walk(function)) > 1


def _rename_arguments(tree, public, keywords):
    kept = public | keywords
    for function in ast.walk(tree):
        if isinstance(function, _FUNCTIONS) and not _has_inner(function):
            used = kept.union(names_of(function))
            words = (word for word in _ROM if word not in used and word[0].islower())
            arguments = [a.arg for a in function.args.args if a.arg not in kept and a.arg not in _ROM]
            _RenameLocals(dict(zip(arguments, words, strict=False))).visit(function)
