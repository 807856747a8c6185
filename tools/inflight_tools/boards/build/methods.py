"""Methods that are not needed all the time are functions on a board: each call hands its object to the function, whose
module is lent. So a class has in the checkout all that changes its fields, and costs on a board what is in use. No
source says so: apart names `Class.method` beside functions, and a private method that nobody but those of one module
calls comes with them.

Such a method is called by its name alone: it is no property, nobody hands it on, no subclass replaces it, and no other
class of the library has a member of that name."""

import ast

from inflight_tools.boards.build.loading import PACKAGE
from inflight_tools.boards.build.names import defined, walk


def make_functions(trees, table, import_in):
    """Makes functions of the methods in `table`, see take_apart(), in their files; `trees` are changed in place.
    import_in(statement, names, module) imports what a statement uses. Returns the table with names of functions alone.
    ValueError if a method is more than called by its name."""
    library = {place: tree for place, tree in trees.items() if place.startswith(f"{PACKAGE}/")}
    users = _users(library)
    homes = {}  # {method: (its file, the module that it is in)}
    named = {}
    elsewhere = {name.partition(".")[2] for _, names in table.values() for name in names}
    for part, (home, names) in table.items():
        named[part] = home, names
        place = f"{PACKAGE}/{home}"
        listed = [name.partition(".")[::2] for name in names if "." in name]
        if not listed or place not in library:
            continue
        classes = {node.name: node for node in library[place].body if isinstance(node, ast.ClassDef)}
        methods = {method: classes[cls] for cls, method in listed if cls in classes}
        methods = _with_private(place, methods, users, elsewhere)
        for name, cls in methods.items():
            method = _only_method(name, cls, library)
            homes[name] = home, part
            cls.body.remove(method)
            library[place].body.append(method)
        named[part] = home, (*(name for name in names if "." not in name), *methods)
    for place, tree in library.items() if homes else ():
        _call(tree, place.rpartition("/")[2], homes, import_in)
    # What works with the library and has no member of such a name means the library's.
    around = {place: tree for place, tree in trees.items() if place not in library}
    own = {name for tree in around.values() for name in _members(tree)}
    others = {name: found for name, found in homes.items() if name not in own}
    for tree in around.values() if others else ():
        _call(tree, "", others, import_in)
    return named


def _members(tree):
    # The names of what is defined in a module, wherever.
    for node in walk(tree):
        if isinstance(node, ast.ClassDef):
            for one in node.body:
                yield from defined(one)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def _users(library):
    """{attribute: {(place, class, method) that uses it}}; (place, None, name) of other statements."""
    users: dict[str, set] = {}
    for place, tree in library.items():
        for node in tree.body:
            for one in node.body if isinstance(node, ast.ClassDef) else (node,):
                user = place, node.name if one is not node else None, (defined(one) or [None])[0]
                for attribute in walk(one):
                    if isinstance(attribute, ast.Attribute):
                        users.setdefault(attribute.attr, set()).add(user)
    return users


def _with_private(place, methods, users, elsewhere):
    # `methods`, {name: its class}, with the private ones that nobody but them calls.
    methods = dict(methods)
    classes = [*dict.fromkeys(methods.values())]
    n = 0
    while n < len(methods):
        n = len(methods)
        mine = {(place, cls.name, name) for name, cls in methods.items()}
        for cls in classes:
            for node in cls.body:
                name = node.name if isinstance(node, ast.FunctionDef) and not node.decorator_list else ""
                callers = users.get(name, set()) - {(place, cls.name, name)}
                if name.startswith("_") and name not in elsewhere and callers and callers <= mine:
                    methods[name] = cls
    return methods


def _only_method(name, cls, library):
    classes = [node for tree in library.values() for node in tree.body if isinstance(node, ast.ClassDef)]
    found = [(of, one) for of in classes for one in of.body if name in defined(one)]
    of, method = found[0] if len(found) == 1 else (None, None)
    if of is not cls or not isinstance(method, ast.FunctionDef) or method.decorator_list:
        raise ValueError(f"{cls.name}.{name}: no method, or another class has such a member, too")
    return method


def _call(tree, module, homes, import_in):
    for statement in tree.body:
        used: dict[tuple, set] = {}
        called = set()
        for node in walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in homes:
                called.add(id(node.func))
                used.setdefault(homes[node.func.attr], set()).add(node.func.attr)
                node.args.insert(0, node.func.value)
                node.func = ast.Name(node.func.attr, ast.Load())
            elif module and isinstance(node, ast.Attribute) and node.attr in homes and id(node) not in called:
                raise ValueError(f"{module}: {node.attr} is handed on, not called")
        for (home, part), names in used.items():
            if home != module:
                import_in(statement, names, part)
            if not module:  # it is not in the folder of the library
                for node in walk(statement):
                    if isinstance(node, ast.ImportFrom) and node.level and node.module == part:
                        node.level, node.module = 0, f"{PACKAGE}.{part}"
