"""Device code made smaller without a change of what it does. On a board each name, each constant that is looked up in
another module and each module costs heap, and in the checkout they cost nothing and are good to read. So when a board's
modules are compiled, all together,

- the folders of the library are for readers: a board has its modules in one,
- what stands in one file and is not loaded together becomes modules of its own (apart),
- constants become numbers wherever they are used, and tables of them become bytes; the texts of codes likewise,
- what is there for CPython goes,
- classes do not keep the names of their module and of themselves, which nothing there reads,
- the modules of the library that are always loaded together become one module, inflight.core, or inflight.journal_core
  where there is a journal; those that programs import are still there for an import by their own names,
- so do modules of the application, under the name of one of them,
- a class of these that is nothing but the base of another one becomes a part of that,
- the texts of errors become one module, inflight.texts, which is loaded when an error is raised,
- some functions stand in place of their calls (inline),
- modules that are needed seldom are given back by the functions that import them (lend),
- what each message runs through is loaded once, with the first one or before (hold),
- MicroPython's own modules are imported by the names that mean the built-in ones, "ustruct" for struct: before it takes
  its own, it looks for a file, at each import, which takes 8 to 20 ms on a Pico W with all files of the application,
- names that nobody outside the library knows become words that the firmware has in ROM (rename), those of modules that
  are given back, too; so do the private names of the application,
- the names that a large module uses most come first in its table (order).

bundle compiles what this makes, and freeze writes it down."""

import ast
from collections import Counter

from inflight_tools.boards.build import seldom
from inflight_tools.boards.build.apart import take_apart
from inflight_tools.boards.build.hold import hold
from inflight_tools.boards.build.inline import inline
from inflight_tools.boards.build.lend import lend
from inflight_tools.boards.build.loading import (
    APART,
    GROUPS,
    INLINED,
    KNOWN,
    LENT,
    MERGED,
    OCCASIONAL,
    PACKAGE,
    PARTS,
    PUBLIC,
    RESIDENT,
    SELDOM,
    TEXTS,
    TOGETHER,
)
from inflight_tools.boards.build.names import FUNCTIONS, calls, defined, is_constant, variables_of, walk
from inflight_tools.boards.build.order import order
from inflight_tools.boards.build.rename import names_of, rename, rename_private, set_apart, short_words

# MicroPython's own modules that a file may replace. Only what is imported often, or by each start.
_BUILT_IN = "array binascii errno hashlib json machine os random select socket struct time".split()
_ON_MICROPYTHON = "sys.implementation.name == 'micropython'"
_ON_CPYTHON = "sys.implementation.name != 'micropython'"


def shrink(sources, public=None, used=(), keeping=None, words=None):
    """`sources`: {place of a module below /lib, without suffix: its text}, all that is to work together. public: names
    that keep their meaning (None: all do); used: see rename(); keeping: see lend(); words: of private_words(), for the
    application. Returns the same with other texts, inflight/core, inflight/journal_core and inflight/texts. ValueError
    if two modules use a name for different things."""
    trees = _shrink(sources, used, keeping, TOGETHER if words else {})
    if words:
        set_apart(trees, words)
    if public is not None:
        trees, tables, _ = _named(trees, public, used)
    if words:
        rename_private(trees, words)
        tables |= dict.fromkeys((place for place, _ in OCCASIONAL.values()), words)
        found = seldom.take_out(trees, tables, OCCASIONAL)
        seldom.ask(trees, tables, found, OCCASIONAL)
    for tree in trees.values():
        _forget_names(tree)
        order(tree)
    return {place: ast.unparse(ast.fix_missing_locations(tree)) + "\n" for place, tree in trees.items()}


def originals(sources, public, used):
    """{module that tracebacks name: (what it is called in loading, the module of the source that it comes from, {name
    in the output of shrink(): name in the source})} of functions."""
    trees = _shrink(sources, used)
    functions = {
        place: {node.name for node in walk(tree) if isinstance(node, FUNCTIONS)} for place, tree in trees.items()
    }
    _, tables, short = _named(trees, public, used)
    found = {}
    for place in dict.fromkeys((*tables, *short)):
        name = place.removeprefix(f"{PACKAGE}/")
        source = SELDOM[place][0] if place in SELDOM else place
        names = {new: name for name, new in tables[source].items() if name in functions[source]}
        origin = f"{PACKAGE}/{APART[name][0]}" if name in APART else source
        found[module_name(short.get(place, place))] = module_name(place), module_name(origin), names
    return found


def _named(trees, public, used):
    # With other names, and with the methods that are seldom needed in modules of their own. Returns what rename() does,
    # too, and the short names of modules.
    client = f"{PACKAGE}/core" in trees
    if client:
        seldom.prepare(trees)
    tables = rename(trees, public, used)
    found = seldom.take_out(trees, tables) if client else {}
    short = _short_names(trees)
    if client:
        seldom.fill(trees, tables, found, short)
    return _with_short_names(trees, short), tables, short


def _shrink(sources, used, keeping=None, together=None):
    trees = {place: _Flat(place).visit(_Trim().visit(ast.parse(text))) for place, text in sources.items()}
    take_apart(trees)
    constants = {_dotted(place): _constants(place, trees) for place in trees}
    together = together or {}
    merged = {f"{PACKAGE}/{name}" for name in MERGED}.union(*together.values())
    known = {f"{PACKAGE}/{name}" for name in (*KNOWN, *PUBLIC)}
    internal = {place for place in trees if place.startswith(f"{PACKAGE}/")} - known | merged
    trees = {place: _Fold(place, constants, place in internal).visit(tree) for place, tree in trees.items()}
    for group, names in (GROUPS | PARTS).items():
        modules = [f"{PACKAGE}/{name}" for name in names if f"{PACKAGE}/{name}" in trees]
        if modules:
            trees = _merge(trees, f"{PACKAGE}/{group}", modules, constants)
    for group, names in together.items():
        if group in trees:
            trees = _merge(trees, group, [name for name in names if name in trees], constants)
    for place, tree in trees.items():
        if place.startswith(f"{PACKAGE}/"):
            _drop_unused_imports(tree)
    if f"{PACKAGE}/core" in trees:
        trees = _detach_texts(trees)
        inline(trees, _to_inline(trees, used, together))
        hold(trees)
        lend(trees, keeping)
    return trees


def _to_inline(trees, used, together):
    # Other modules than an application's, tests for one, may call all that there is. The library is the same with
    # modules of a board beside it and without.
    ours = {place: tree for place, tree in trees.items() if place.startswith(f"{PACKAGE}/")}
    others = () if together else (trees[place] for place in trees.keys() - ours.keys())
    called = {name for tree in others for name in names_of(tree)}.union(() if together else used)
    given = {node.name for tree in ours.values() for node in walk(tree) if isinstance(node, FUNCTIONS)} - called
    return [name for name in INLINED if name in given]


# --- names of modules ---


def _short_names(trees):
    """{place of a module that only the library knows: its place by a word of the ROM}. The name of a module that was
    loaded stays, with two paths that have it: there are fewer bytes of a short one, and none for the word itself."""
    inside = [place.rpartition("/")[2] for place in trees if place.startswith(f"{PACKAGE}/")]
    words = short_words({*inside, *names_of(trees[f"{PACKAGE}/__init__"])})
    ours = sorted({*inside, *LENT, *(place.rpartition("/")[2] for place in SELDOM)} - {*KNOWN, *GROUPS, *PUBLIC})
    short = {name: f"{PACKAGE}/{word}" for name, word in zip(ours, words, strict=False)}
    return {f"{PACKAGE}/{name}": place for name, place in short.items() if name in inside}


def _with_short_names(trees, short):
    for place, tree in trees.items():
        for name, node in _imports(tree, place):
            found = short.get(name.replace(".", "/"))
            if found and isinstance(node, ast.ImportFrom):
                node.module = found.rpartition("/")[2] if node.level else _dotted(found)
            elif found and isinstance(node, ast.Import):
                for alias in node.names:
                    alias.name = _dotted(found) if alias.name == name else alias.name
    for place, new in short.items():  # what one that is lent notes when it is loaded
        name, word = (each.rpartition("/")[2] for each in (place, new))
        for node in trees[place].body:
            call = node.value if isinstance(node, ast.Expr) else None
            if isinstance(call, ast.Call) and ast.unparse(call).endswith(f".append('{name}')"):
                call.args = [ast.Constant(word)]
    return {short.get(place, place): tree for place, tree in trees.items()}


def module_name(place):
    """What the module at `place` is imported as."""
    return _dotted(place.removesuffix("/__init__"))


def _dotted(place):
    return place.replace("/", ".")


def _imported(node, place):
    """The full name of the module that `from ... import` in the module at `place` means."""
    return f"{_dotted(place.rpartition('/')[0])}.{node.module}" if node.level else node.module


_DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)


class _Trim(ast.NodeTransformer):
    """Takes out docstrings, declarations of types, and what is not for MicroPython."""

    def visit(self, node):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        return super().visit(node)

    def visit_AnnAssign(self, node):
        return ast.Assign([node.target], node.value) if node.value else None

    def visit_If(self, node):
        self.generic_visit(node)
        test = ast.unparse(node.test)
        return node.body if test == _ON_MICROPYTHON else node.orelse if test == _ON_CPYTHON else node


class _Flat(ast.NodeTransformer):
    """Imports modules of the library without their folders, and MicroPython's own without a look at the file system."""

    def __init__(self, place):
        self._inside = place.startswith(f"{PACKAGE}/")
        self._exports = place in (f"{PACKAGE}/__init__", f"{PACKAGE}/exports")

    def visit_Import(self, node):
        for alias in node.names:
            if alias.name in _BUILT_IN:
                alias.asname = alias.asname or alias.name
            alias.name = _flat(alias.name)
        return node

    def visit_ImportFrom(self, node):
        if node.level and self._inside:
            node.level, node.module = 1, node.module.rpartition(".")[2]
        elif not node.level:
            node.module = _flat(node.module)
        return node

    def visit_Dict(self, node):
        if self._exports:  # tables of names and modules
            node.values = [ast.Constant(value.value.rpartition(".")[2]) for value in node.values]
        return node


def _flat(name):
    if name in _BUILT_IN:
        return f"u{name}"
    package, _, module = name.partition(".")
    return f"{package}.{module.rpartition('.')[2]}" if package == PACKAGE and module else name


def _constants(place, trees):
    """{name: number} of the names that a module defines by const(number), or re-exports; of codes its texts."""
    found = {}
    for node in trees[place].body:
        if isinstance(node, ast.ImportFrom):
            source = (_imported(node, place) or "").replace(".", "/")
            known = _constants(source, trees) if source in trees else {}
            found |= {alias.asname or alias.name: known[alias.name] for alias in node.names if alias.name in known}
        if is_constant(node):
            words = compile(ast.Expression(node.value.args[0]), "const", "eval")
            found[node.targets[0].id] = eval(words, {"__builtins__": {}}, dict(found))
        elif place in TEXTS and isinstance(node, ast.Assign):
            found[ast.unparse(node.targets[0])] = ast.literal_eval(node.value)
    return found


class _Fold(ast.NodeTransformer):
    """Replaces constants by their numbers, the module's own and imported ones. Public constants of a module that
    programs import remain; `internal`: none do."""

    def __init__(self, place, constants, internal):
        self._place, self._constants, self._internal = place, constants, internal
        self._numbers = dict(constants[_dotted(place)])
        self._modules = {}  # those imported by a name: their constants

    def visit_Import(self, node):
        for alias in node.names:
            if alias.asname and alias.name in self._constants:
                self._modules[alias.asname] = self._constants[alias.name]
        return node

    def visit_ImportFrom(self, node):
        known = self._constants.get(_imported(node, self._place), {})
        for alias in node.names:
            if alias.name in known:
                self._numbers[alias.asname or alias.name] = known[alias.name]
        # const() is unused now.
        node.names = [alias for alias in node.names if alias.name not in known and alias.name != "const"]
        return node if node.names else None

    def visit_Assign(self, node):
        if not is_constant(node):
            return self.generic_visit(node)
        if self._internal or node.targets[0].id.startswith("_"):
            return None
        return ast.Assign(node.targets, ast.Constant(self._numbers[node.targets[0].id]))

    def visit_Call(self, node):
        # A literal table is a constant, too.
        self.generic_visit(node)
        if calls(node, "bytes") and len(node.args) == 1 and isinstance(node.args[0], ast.Tuple):
            items = node.args[0].elts
            if all(isinstance(item, ast.Constant) for item in items):
                return ast.Constant(bytes(ast.literal_eval(node.args[0])))
        return node

    def visit_Attribute(self, node):
        if isinstance(node.value, ast.Name) and node.attr in self._modules.get(node.value.id, ()):
            return ast.Constant(self._modules[node.value.id][node.attr])
        return self.generic_visit(node)

    def visit_Name(self, node):
        loads = isinstance(node.ctx, ast.Load) and node.id in self._numbers
        return ast.Constant(self._numbers[node.id]) if loads else node


def _drop_unused_imports(tree):
    """Takes out `import ...` of modules that were imported for their constants, or for CPython, alone."""
    used = {node.id for node in walk(tree) if isinstance(node, ast.Name)}
    for node in [node for node in tree.body if isinstance(node, ast.Import)]:
        node.names = [alias for alias in node.names if (alias.asname or alias.name.partition(".")[0]) in used]
        if not node.names:
            tree.body.remove(node)


# --- merging modules ---


def _globals(tree):
    """The names that a module defines itself, not by an import."""
    for node in tree.body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from defined(node)


def _public(tree):
    """Names that others may import from a module, its own or re-exported."""
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    handed_on = [alias.asname or alias.name for node in imports for alias in node.names]
    return [name for name in (*_globals(tree), *handed_on) if not name.startswith("_")]


def _merge(trees, core, modules, constants):
    owner = {}
    imports, body = {}, []
    exports = {place: _public(trees[place]) for place in modules}
    for place in modules:
        for name in _globals(trees[place]):
            if owner.setdefault(name, place) != place:
                raise ValueError(f"{name} is defined in {owner[name]} and in {place}: rename one")
        tree = _Redirect(place, modules, core).visit(trees[place])
        for node in tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                imports[ast.unparse(node)] = node
            else:
                body.append(node)
    found = {place: _imports(tree, place) for place, tree in trees.items() if place not in modules}
    gone = _join_classes(body, trees, found)
    result = {core: ast.Module([*imports.values(), *body], [])}
    for place, tree in trees.items():
        if place in modules:
            if place.rpartition("/")[2] in PUBLIC:
                result[place] = _forwarder(
                    core, [name for name in exports[place] if name not in gone], constants[_dotted(place)]
                )
        elif place == f"{PACKAGE}/__init__":
            result[place] = _Readdress().visit(tree)
        elif any(name.replace(".", "/") in modules for name, _ in found[place]):
            result[place] = _Redirect(place, modules, core).visit(tree)
        else:
            result[place] = tree
    return result


def _imports(tree, place):
    """[(full name of a module, node)] of the imports in the module at `place`."""
    found: list[tuple[str, ast.stmt]] = []
    for node in walk(tree):
        if isinstance(node, ast.ImportFrom):
            found.append((_imported(node, place) or "", node))
        elif isinstance(node, ast.Import):
            found += [(alias.name, node) for alias in node.names]
    return found


def _forwarder(core, names, constants):
    """A module that only re-exports names that are in `core` now."""
    lines = [f"from .{core.rpartition('/')[2]} import {', '.join(names)}"] if names else []
    lines += [f"{name} = {value}" for name, value in constants.items() if not name.startswith("_")]
    return ast.parse("\n".join(lines))


def _join_classes(body, trees, imports):
    """A class that is nothing but the base of one other class in `body` becomes a part of that: each class costs some
    150 bytes of heap. Not if one of the other modules imports it. imports: {place: _imports()} of those. Returns the
    names that are gone."""
    uses = Counter(name for node in body for name in names_of(node))
    for place, found in imports.items():
        ours = [node for name, node in found if isinstance(node, ast.ImportFrom) and name.startswith(f"{PACKAGE}.")]
        uses.update(alias.name for node in ours for alias in node.names)
        if place == f"{PACKAGE}/__init__":  # its table of names and modules
            uses.update(node.value for node in walk(trees[place]) if isinstance(node, ast.Constant))
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    gone = set()
    for base in classes:
        heir = next((node for node in classes if base.name in map(ast.unparse, node.bases)), None)
        alone = heir and uses[base.name] == 2  # where it is defined, and as a base
        if alone and _fit(base, heir):
            heir.body[:0] = base.body
            heir.bases = base.bases
            body.remove(base)
            gone.add(base.name)
    return gone


def _fit(base, heir):
    """True if a class with the members of both means the same."""
    plain = len(heir.bases) == 1 and not (heir.decorator_list or base.decorator_list)
    above = {node.attr for node in walk(heir) if isinstance(node, ast.Attribute) and "super" in names_of(node.value)}
    return plain and not _members(base) & (_members(heir) | above)


def _members(node):
    """The names that a class defines."""
    return {name for one in node.body for name in defined(one)}


def _forget_names(tree):
    """Each class begins with the names of its module and of itself in its table. What comes next takes their places."""
    for node in walk(tree):
        if isinstance(node, ast.ClassDef):
            node.body[:0] = ast.parse("del __module__, __qualname__").body


class _Readdress(ast.NodeTransformer):
    """Updates the table of names and modules in __init__."""

    def visit_Constant(self, node):
        return ast.Constant(MERGED.get(node.value, node.value))


class _Redirect(ast.NodeTransformer):
    """Rewrites imports of merged modules: within core they are removed, elsewhere they become imports of core."""

    def __init__(self, place, modules, core):
        self._place = place
        self._inside = place in modules
        self._modules = [_dotted(module) for module in modules]
        self._core = _dotted(core)
        self._aliases = set()
        self._locals = set()

    def visit_Import(self, node):
        self._aliases |= {alias.asname or alias.name for alias in node.names if alias.name in self._modules}
        node.names = [alias for alias in node.names if not (self._inside and alias.name in self._modules)]
        for alias in node.names:
            if alias.name in self._modules and (alias.asname or "." not in alias.name):
                alias.name, alias.asname = self._core, alias.asname or alias.name
        return node if node.names else None

    def visit_ImportFrom(self, node):
        if _imported(node, self._place) not in self._modules:
            return node
        if self._inside:
            return None
        return ast.ImportFrom(self._core, node.names, 0)

    def visit_FunctionDef(self, node):
        outer, self._locals = self._locals, set(variables_of(node)) if self._inside else set()
        self.generic_visit(node)
        self._locals = outer
        return node

    def visit_Attribute(self, node):
        if self._inside and isinstance(node.value, ast.Name) and node.value.id in self._aliases:
            if node.attr in self._locals:
                raise ValueError(f"{self._place}: {node.attr} is a function that is called there: name it otherwise")
            return ast.Name(node.attr, node.ctx)
        return self.generic_visit(node)


# --- texts of errors ---

_TEXTS = """
def text(n, *values):
    return ()[n] % values
"""
# An error that has no text for lack of memory is still the error that its handlers know.
_LOAD_TEXT = """
def _text(*words):
    try:
        from .texts import text
        return text(*words)
    except Exception:
        return ""
"""


def _detach_texts(trees):
    texts = {}
    for name in RESIDENT:
        tree = trees.get(f"{PACKAGE}/{name}", ast.Module([], []))
        detach = _DetachTexts(texts)
        detach.visit(tree)
        if name == "core":
            tree.body += ast.parse(_LOAD_TEXT).body
        elif detach.found:
            tree.body[:0] = ast.parse("from .core import _text").body
    module = ast.parse(_TEXTS)
    table = next(node for node in walk(module) if isinstance(node, ast.Tuple))
    table.elts = [ast.Constant(text) for text in texts]
    return trees | {f"{PACKAGE}/texts": module}


class _DetachTexts(ast.NodeTransformer):
    """Replaces each sentence in a function by a call of _text() with its number, and with the values that it is
    formatted with."""

    def __init__(self, texts):
        self._texts = texts  # {text: its number}
        self._functions = 0
        self.found = False

    def visit_FunctionDef(self, node):
        self._functions += 1
        self.generic_visit(node)
        self._functions -= 1
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_BinOp(self, node):
        self.generic_visit(node)
        if isinstance(node.op, ast.Mod) and isinstance(node.left, ast.Call) and ast.unparse(node.left.func) == "_text":
            node.left.args += node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
            return node.left
        return node

    def visit_Constant(self, node):
        if not (self._functions and isinstance(node.value, str) and " " in node.value.strip()):
            return node
        self.found = True
        number = self._texts.setdefault(node.value, len(self._texts))
        return ast.Call(ast.Name("_text", ast.Load()), [ast.Constant(number)], [])
