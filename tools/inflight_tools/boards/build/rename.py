"""Renames internal names so that they cost no heap. Each name that MicroPython's firmware does not contain costs some
20 bytes of heap. rom_names.txt lists names that the stock firmware of ESP32 and Pico W, and the unix port, have in ROM.

An internal name is one that the library defines (a global, a method, an attribute) and that nothing else can refer
to: it is not public, is in no string, and is not imported from elsewhere. It becomes the same word everywhere, so
tracebacks can be translated back. Attributes of objects of different classes may have one word. A global may become the
same word as an attribute does: neither is taken for the other; a private global of one module is that word in this
module only, where another module can have the same word for another one. An argument that is not public and never
passed by keyword becomes any word that is unused in its function. Variables have no names in bytecode, and stay.

A private name of the application becomes one word in all of its modules. Its other names stay, since drivers of other
people use them; where the library has one, too, that is another name."""

import ast
import builtins
import collections
from pathlib import Path

from inflight_tools.boards.build.loading import FIRST, PACKAGE
from inflight_tools.boards.build.names import FUNCTIONS, is_constant, uses, walk

# The shortest first: a module has the text of each in its file.
_ROM = sorted((Path(__file__).parent / "rom_names.txt").read_text().split(), key=len)
_FIELDS = ("id", "attr", "name", "arg", "asname")  # of nodes, that hold a name
_MARK = "__of_the_application"
_BUILTIN = set(dir(builtins))


def rename(trees, public, used=()):
    """Renames internal names in trees, {place: ast.Module}, in place. public: names that keep their meaning; used: all
    names in modules that may work with the library; none of them becomes a new name, nor the name of something that is
    no attribute. Returns {place: {original name: new name}} of the library."""
    found = {place: _Module(tree) for place, tree in trees.items()}
    library = {place: module for place, module in found.items() if place.startswith(f"{PACKAGE}/")}
    public = {*public, *_BUILTIN}
    kept = {*public, *_ROM}
    for module in library.values():
        kept |= {*module.imported(), *module.strings(), *module.keywords()}
    internal = {name for module in library.values() for name in module.given() if name[:2] != "__"} - kept
    private = {place: internal & names for place, names in _private(library).items()}
    internal -= set().union(*private.values())
    internal &= {name for module in library.values() if not module.only_hands_on for name in uses(module.tree)}
    attributes = internal & set().union(used, *(module.attributes() for module in found.values()))
    rank = {
        name: k
        for k, module in reversed([*enumerate(FIRST)])
        if (place := f"{PACKAGE}/{module}") in library
        for name in library[place].names()
    }

    def ordered(names):
        return sorted(names, key=lambda name: (rank.get(name, len(FIRST)), name))

    taken = public.union(used, *(module.names() for module in found.values()))
    table = _words_of_attributes(ordered(attributes), library, used, _unused(taken))
    for module in found.values():
        module.rename(table)
    # Not names of methods, which tracebacks show as well.
    taken = public.union(used, *(module.variables() | module.functions() for module in library.values()))
    new = dict(zip(ordered(internal - attributes), _unused(taken), strict=False))
    for place, module in found.items():
        if place in library:
            module.rename(new)
        else:
            module.hand_on(new, 0)  # by the names that the module knows; relative imports are of another package
    table |= new
    keywords = _BUILTIN.union(*(module.keywords() for module in found.values()))
    tables = {}
    for place, module in library.items():
        own = dict(zip(sorted(private[place]), _unused(public.union(module.names())), strict=False))
        module.rename(own)
        _rename_arguments(module.tree, public, keywords)
        tables[place] = table | own
    return tables


def private_words(texts):
    """{private name: word} for the modules `texts`, of the firmware and of all boards: a device has the same words
    whatever its board is, so a traceback can be translated back. The words are no names there. There are fewer words
    than names: those of the first modules get one, the others keep their own, apart from a name of the library."""
    modules = [_Module(ast.parse(text)) for text in texts]
    strings = {string for module in modules for string in module.strings()}
    given = {name for module in modules for name in {*module.given()}.difference(module.constants())}
    private = {name for name in given - strings if name[0] == "_" and name[:2] != "__"}
    words = _unused(strings.union(*(module.names() for module in modules)))
    ordered = dict.fromkeys(name for module in modules for name in sorted(private.intersection(module.given())))
    return {name: next(words, name) for name in ordered}


def own_names(texts):
    """Names that the modules `texts` use for nothing but their own: in the library they mean something else. Not names
    of attributes of other objects, nor of a class that derives from one that is not theirs."""
    modules = [_Module(ast.parse(text)) for text in texts]
    classes = [[node for node in module.nodes if isinstance(node, ast.ClassDef)] for module in modules]
    known = _BUILTIN.union(of.name for found in classes for of in found)
    others = set(_BUILTIN)
    for module, found in zip(modules, classes, strict=True):
        bases = {of: {ast.unparse(base).rpartition(".")[2] for base in of.bases} for of in found}
        own = {node for of in found if bases[of] <= known for node in _of_self(of)}
        others |= {node.attr for node in module.nodes if isinstance(node, ast.Attribute) and node not in own}
        others |= {*module.imported(), *module.keywords(), *module.strings()}
        others |= {alias.name for node in module.imports for alias in node.names}
    return {name for module in modules for name in module.names() if name[:1] != "_"} - others


def set_apart(trees, words):
    """Before rename(): a name that the application has for itself, and the library too, means something else there."""
    marked = {name: word + _MARK for name, word in words.items()}
    for place, tree in trees.items():
        if not place.startswith(f"{PACKAGE}/"):
            _Module(tree).rename(marked)


def rename_private(trees, words):
    """Behind set_apart() and rename(): gives these names their words, and arguments that no call names any words."""
    marked = {word + _MARK: word for word in words.values()}
    keywords = _BUILTIN.union(*(_keywords(walk(tree)) for tree in trees.values()))
    for place, tree in trees.items():
        if not place.startswith(f"{PACKAGE}/"):
            _Module(tree).rename(marked)
            _rename_arguments(tree, set(), keywords)


def _words_of_attributes(names, library, used, words):
    """{name: word}. There are fewer words than names, so two names get the same word if no object has both, if no
    module has functions of both, so that a traceback is translated back, and if neither is a variable, too, which is
    renamed with it. used: names in modules that may work with the library, whose objects may have any of them."""
    others = set(used).union(*(module.variables() for module in library.values()))
    owners = {name: None if len(of) > 1 or name in others else next(iter(of)) for name, of in _owners(library).items()}
    functions = {place: module.functions() for place, module in library.items()}
    places = {name: {place for place, found in functions.items() if name in found} for name in names}

    def may_share(name, other):
        one, another = owners.get(name), owners.get(other)
        return one and another and one != another and places[name].isdisjoint(places[other])

    table, given = {}, {word: [] for word in words}
    for name in names:
        word = next((w for w, others in given.items() if all(may_share(name, other) for other in others)), None)
        if word:
            table[name] = word
            given[word].append(name)
    return table


def _owners(library):
    """{name: classes whose objects get an attribute of that name}: one of a class and its relatives; None: objects of
    any class may get it."""
    classes = [node for module in library.values() for node in module.nodes if isinstance(node, ast.ClassDef)]
    relatives = {of.name: {of.name} for of in classes}
    for of in classes:
        for base in relatives.keys() & {ast.unparse(one).rpartition(".")[2] for one in of.bases}:
            relatives[of.name] |= relatives[base]
            relatives |= dict.fromkeys(relatives[of.name], relatives[of.name])

    owners = collections.defaultdict(set)
    stores = {n for module in library.values() for n in module.nodes if isinstance(n, ast.Attribute) and _is_store(n)}
    for of in classes:
        mine = stores.intersection(_of_self(of))
        stores -= mine
        methods = [one for one in of.body if isinstance(one, FUNCTIONS)]
        fields = (node for one in of.body if one not in methods for node in walk(one))
        given = {one.name for one in methods} | {node.attr for node in mine}
        for name in given | {node.id for node in fields if isinstance(node, ast.Name) and _is_store(node)}:
            owners[name].add(min(relatives[of.name]))
    for node in stores:
        owners[node.attr].add(None)
    return owners


def _of_self(of):
    """The nodes of attributes that the methods of a class give to, or take of, their own object."""
    for one in of.body:
        if isinstance(one, FUNCTIONS) and one.args.args:
            me = one.args.args[0].arg
            for node in walk(one):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == me:
                    yield node


def _is_store(node):
    return not isinstance(node.ctx, ast.Load)


def short_words(used):
    """The words of the ROM of three letters at most that are none of `used`."""
    return (word for word in _unused(used) if len(word) <= 3 and word.isalpha() and word.islower())


def _unused(used):
    return (word for word in _ROM if word not in used)


def _private(library):
    """{place: the globals of that module that no other one can refer to}."""
    aliases = (alias.name for module in library.values() for node in module.imports for alias in node.names)
    elsewhere = {*aliases}.union(*(module.attributes() for module in library.values()))
    return {place: {name for name in module.given() if name[0] == "_"} - elsewhere for place, module in library.items()}


class _Module:
    """A module, with its nodes in a list: they are asked for their names again and again."""

    def __init__(self, tree):
        self.tree = tree
        self.nodes = walk(tree)
        self.imports = [node for node in self.nodes if isinstance(node, ast.ImportFrom)]
        self.only_hands_on = all(isinstance(node, (ast.ImportFrom, ast.Assign)) for node in tree.body)
        fields = ((node, field) for node in self.nodes for field in _FIELDS if field in node._fields)
        self._named = [(node, field) for node, field in fields if isinstance(getattr(node, field), str)]
        self._lists = [node for node in self.nodes if isinstance(node, (ast.Global, ast.Nonlocal))]

    def names(self):
        """Every name, whatever it refers to."""
        return {getattr(node, field) for node, field in self._named}.union(*(node.names for node in self._lists))

    def attributes(self):
        """Names of attributes, and of what a class defines."""
        for node in self.nodes:
            if isinstance(node, ast.Attribute):
                yield node.attr
            elif isinstance(node, ast.ClassDef):
                yield from (one.name for one in node.body if isinstance(one, FUNCTIONS))
                fields = (name for one in node.body if not isinstance(one, FUNCTIONS) for name in walk(one))
                yield from (one.id for one in fields if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store))

    def variables(self):
        """Every name that is not of an attribute alone."""
        methods = {id(one) for node in self.nodes if isinstance(node, ast.ClassDef) for one in node.body}
        named = ((node, field) for node, field in self._named if field != "attr" and id(node) not in methods)
        return {getattr(node, field) for node, field in named}.union(*(node.names for node in self._lists))

    def functions(self):
        return {node.name for node in self.nodes if isinstance(node, FUNCTIONS)}

    def keywords(self):
        return _keywords(self.nodes)

    def strings(self):
        return _strings(self.nodes)

    def imported(self):
        """What it takes from outside the library."""
        for node in self.nodes:
            if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not _is_ours(node)):
                for alias in node.names:
                    yield from alias.name.split(".")
                    yield alias.asname or alias.name

    def given(self):
        """Names that it defines."""
        for node in self.nodes:
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                yield node.name
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                yield node.attr
            elif isinstance(node, ast.Global):
                yield from node.names
        for node in self.tree.body:
            yield from (n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))

    def constants(self):
        """Names that are numbers wherever they are used."""
        for node in self.tree.body:
            if is_constant(node):
                yield ast.unparse(node.targets[0])

    def rename(self, table):
        if self.only_hands_on:
            self.hand_on(table)
            return
        for node, field in self._named:
            name = getattr(node, field)
            if name in table:
                setattr(node, field, table[name])
        for node in self._lists:
            node.names = [table.get(name, name) for name in node.names]

    def hand_on(self, table, level=1):
        """What it imports from the library keeps the name that it has in its source. level: of relative imports that
        are of the library, at most."""
        for node in self.imports:
            if node.level <= level and _is_ours(node):
                for alias in node.names:
                    alias.asname = alias.asname or alias.name
                    alias.name = table.get(alias.name, alias.name)


def mentioned(text):
    """The names in the bytecode of a module, including its strings."""
    tree = ast.parse(text)
    nodes = walk(tree)
    return {*uses(tree), *_keywords(nodes), *_strings(nodes)}


def names_in(text):
    """The same, and the names of variables."""
    return {*names_of(ast.parse(text)), *mentioned(text)}


def names_of(tree):
    """Every name in `tree`, whatever it refers to."""
    for node in walk(tree):
        for field in _FIELDS:
            if isinstance(getattr(node, field, None), str):
                yield getattr(node, field)
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            yield from node.names


def _keywords(nodes):
    return (node.arg for node in nodes if isinstance(node, ast.keyword) and node.arg)


def _strings(nodes):
    return (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_ours(node):
    return node.level > 0 or node.module.split(".")[0] == PACKAGE


def _has_inner(function):
    return sum(isinstance(node, (*FUNCTIONS, ast.Lambda)) for node in walk(function)) > 1


def _rename_arguments(tree, public, keywords):
    kept = public | keywords
    for function in walk(tree):
        if isinstance(function, FUNCTIONS) and not _has_inner(function):
            used = kept.union(names_of(function))
            words = (word for word in _ROM if word not in used and word[0].islower())
            arguments = [a.arg for a in function.args.args if a.arg not in kept and a.arg not in _ROM]
            table = dict(zip(arguments, words, strict=False))
            for node in walk(function):
                if isinstance(node, ast.Name):
                    node.id = table.get(node.id, node.id)
                elif isinstance(node, ast.arg):
                    node.arg = table.get(node.arg, node.arg)
