"""Functions that stand together because they are about one thing, and are not loaded together, are modules of their
own on a board. No source says so: in the checkout they are in one file, and call each other.

The table names the functions, methods (see there), classes and constants of such a module; what only they use, and
nobody else can, comes with them. A function of another module that uses one of them imports it where it begins to, and
lend gives it back."""

import ast
from copy import copy

from inflight_tools.boards.build.loading import APART, BRIEF, MERGED, PACKAGE
from inflight_tools.boards.build.methods import make_functions
from inflight_tools.boards.build.names import FUNCTIONS, blocks, children, defined, variables_of, walk

_IMPORTS = (ast.Import, ast.ImportFrom)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def take_apart(trees, table=APART):
    """`trees`, {place: ast.Module}, are changed in place, and get the modules of `table`, {module: (module that it
    comes from, names)}. Each of them imports those before it in the table when it is loaded, and everybody those that
    are always there, which import no others. ValueError if a name is used by what is loaded before it."""
    table = make_functions(trees, table, _import_in)
    for home in dict.fromkeys(home for home, _ in table.values()):
        if f"{PACKAGE}/{home}" in trees:
            parts = {part: names for part, (origin, names) in table.items() if origin == home}
            _take_apart(trees, home, parts)


def _take_apart(trees, home, parts):
    tree = trees[f"{PACKAGE}/{home}"]
    imports = [node for node in tree.body if isinstance(node, _IMPORTS)]
    body = [node for node in tree.body if not isinstance(node, _IMPORTS)]
    owner = _owners(home, body, parts)
    made = {home: [], **{part: [] for part in parts if part in owner.values()}}
    _check(home, body, {name for name, module in owner.items() if module != home})
    for node in body:
        made[_owner(node, owner, home)].append(node)
    order = [*made]
    uses = {module: {node.id for each in made[module] for node in _globals_in(each)} for module in made}
    taken = set().union(*(uses[part] for part in made if part != home)) - uses[home]
    for module, statements in made.items():
        first = [_only(node, lambda name, module=module: name in uses[module]) for node in imports]
        if module == home:  # it hands on what nobody uses, and what is always there
            first = [_only(node, lambda name, node=node: name not in taken or _is_there(node)) for node in imports]
        for other in order:
            names = sorted(name for name in uses[module] if owner.get(name) == other != module)
            before = order.index(other) < order.index(module) and module not in MERGED
            if names and (other in MERGED or before):
                first.append(ast.ImportFrom(other, [ast.alias(name) for name in names], 1))
            elif names:
                for statement in statements:
                    _import_in(statement, {*names}, other)
        trees[f"{PACKAGE}/{module}"] = ast.Module([*filter(None, first), *statements], [])
    for place, other in trees.items():
        if place.rpartition("/")[2] not in made:
            _Readdress(place, home, owner).visit(other)


def _owners(home, body, parts):
    # {global of the file: the module that it is in}
    bound = {name for node in body for name in defined(node)}
    owner = dict.fromkeys(bound, home)
    for part, names in parts.items():
        owner |= dict.fromkeys(bound.intersection(names), part)
    listed = {name for names in parts.values() for name in names}
    users = {name: set() for name in bound}
    for node in body:
        for one in _globals_in(node):
            if one.id in users:
                users[one.id].update(defined(node)[:1] or [None])
    moved = True
    while moved:
        moved = False
        for name in sorted(bound - listed):
            owners = {owner.get(user, home) for user in users[name] if user != name}
            if name.startswith("_") and len(owners) == 1 and owner[name] not in owners:
                owner[name], moved = owners.pop(), True
    return owner


def _check(home, body, moved):
    # What stands elsewhere has one meaning in the file.
    for node in [one for statement in body for one in walk(statement)]:
        bound = []
        if isinstance(node, FUNCTIONS):
            bound = variables_of(node)
        elif isinstance(node, ast.Global):
            bound = node.names
        elif isinstance(node, ast.ExceptHandler):
            bound = [node.name]
        elif isinstance(node, _IMPORTS):
            bound = defined(node)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del):
            bound = [node.id]
        if again := moved.intersection(bound):
            raise ValueError(f"{home}: {', '.join(sorted(again))} means something else, too: name it otherwise")


def _owner(node, owner, home):
    found = {owner[name] for name in defined(node)} or {home}
    if len(found) > 1:
        raise ValueError(f"{home}: {', '.join(defined(node))} are one statement")
    return found.pop()


def _globals_in(node, variables=frozenset()):
    """The nodes of names that are no variables of a function, without those that are assigned."""
    if isinstance(node, (*FUNCTIONS, ast.Lambda)):
        shared = {name for one in walk(node) if isinstance(one, ast.Global) for name in one.names}
        variables = variables.union(variables_of(node)) - shared
    if isinstance(node, ast.Name) and node.id not in variables and isinstance(node.ctx, ast.Load):
        yield node
    for child in children(node):
        yield from _globals_in(child, variables)


def _is_there(node):
    return isinstance(node, ast.ImportFrom) and node.level > 0 and node.module in MERGED


def _only(node, wanted):
    names = [alias for alias in node.names if wanted(alias.asname or alias.name.partition(".")[0])]
    if not names:
        return None
    node = copy(node)
    node.names = names
    return node


# --- imports where something is used ---


def _import_in(statement, names, other):
    """Each function in `statement` that uses some of `names` imports them. ValueError if something else does."""
    for node in walk(statement):
        if isinstance(node, FUNCTIONS):
            _insert(node.body, names.difference(variables_of(node)), other)
    if _uses(statement, names):
        raise ValueError(f"{', '.join(sorted(names))} of {other}: used by what is loaded before it")


def _outside(node):
    # The nodes in `node`, without the bodies of functions.
    if isinstance(node, FUNCTIONS):
        return [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
    return children(node)


def _insert(block, names, other):
    """Before the first statement that uses one of `names` itself; those before it import what they use, each in the
    block that has it. Not within a loop. A module of BRIEF: before each of them, also within one."""
    brief = other in BRIEF
    i = 0
    while i < len(block):
        statement = block[i]
        i += 1
        if not _uses(statement, names):
            continue
        inner = [] if isinstance(statement, FUNCTIONS if brief else (*_LOOPS, *FUNCTIONS)) else blocks(statement)
        if not inner or _uses(statement, names, but=inner):
            served = [statement] if brief else block[i - 1 :]
            rest = sorted(name for name in names if any(_uses(each, {name}) for each in served))
            block.insert(i - 1, ast.ImportFrom(other, [ast.alias(name) for name in rest], 1))
            if not brief:
                return
            i += 1
        else:
            for each in inner:
                _insert(each, names, other)


def _uses(node, names, but=()):
    """True if `node` uses one of them outside of functions and of the statements in the blocks `but`."""
    if isinstance(node, ast.Name):
        return isinstance(node.ctx, ast.Load) and node.id in names
    skipped = [id(statement) for block in but for statement in block]
    return any(_uses(child, names, but) for child in _outside(node) if id(child) not in skipped)


class _Readdress(ast.NodeTransformer):
    """What is imported of a file from elsewhere is imported from the module that has it."""

    def __init__(self, place, home, owner):
        self._folder = place.rpartition("/")[0]
        self._home, self._owner = home, owner
        self._exports = place in (f"{PACKAGE}/__init__", f"{PACKAGE}/exports")

    def visit_ImportFrom(self, node):
        known = (self._home, 1) if self._folder == PACKAGE else (f"{PACKAGE}.{self._home}", 0)
        if (node.module, node.level) != known:
            return node
        found = {}
        for alias in node.names:
            module = self._owner.get(alias.name, self._home)
            found.setdefault(node.module.replace(self._home, module), []).append(alias)
        return [ast.ImportFrom(module, names, node.level) for module, names in found.items()]

    def visit_Dict(self, node):
        if self._exports:  # tables of names and modules
            for key, value in zip(node.keys, node.values, strict=True):
                if value.value == self._home:
                    value.value = self._owner.get(key.value, self._home)
        return node
