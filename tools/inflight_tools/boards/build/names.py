"""Which names of a module stand in its bytecode: all but the names of variables in functions."""

import ast

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WITHOUT_NODES = {"id", "attr", "name", "arg", "asname", "ctx", "level"}  # fields that hold no node, or a context


def children(node):
    """ast.iter_child_nodes() in less time, without the contexts of names."""
    found = []
    for name in node._fields:
        value = None if name in _WITHOUT_NODES else getattr(node, name, None)
        if type(value) is list:
            found += [one for one in value if isinstance(one, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def walk(node):
    """A list like ast.walk(), from children()."""
    found = [node]
    for each in found:  # which grows
        found += children(each)
    return found


def calls(node, name):
    """True if `node` is a call of the function of that name."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


def is_constant(node):
    """True if the statement defines a number by const()."""
    return isinstance(node, ast.Assign) and calls(node.value, "const")


def defined(statement):
    """The globals that a statement of a module defines, also by an import."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name for alias in statement.names]
    return [one.id for one in walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]


def imported_modules(text):
    """The names of the modules that the module `text` imports, packages for what is in one; not its own package's."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name.partition(".")[0] for name in found}


def blocks(statement):
    """The lists of statements in a statement."""
    parts = (statement, *getattr(statement, "handlers", ()))
    return [getattr(part, field) for part in parts for field in ("body", "orelse", "finalbody") if hasattr(part, field)]


def uses(node, variables=frozenset()):
    """The names in the bytecode of `node`, once for each use. variables: of the functions around it."""
    if isinstance(node, FUNCTIONS):
        variables = variables.union(variables_of(node))
        yield node.name
        yield from (arg.arg for arg in node.args.args)
    elif isinstance(node, ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.alias):
        yield from (node.name, node.asname or node.name)
    elif isinstance(node, ast.Name) and node.id not in variables:
        yield node.id
    for child in children(node):
        if not isinstance(child, ast.arg) and child is not getattr(node, "returns", None):  # types are in no bytecode
            yield from uses(child, variables)


def uses_in_functions(tree):
    """The same of the functions of a module, without what is garbage when it is imported."""
    for node in children(tree):
        if isinstance(node, FUNCTIONS):
            yield from uses(node)
        else:
            yield from uses_in_functions(node)


def variables_of(function):
    """The arguments and variables of a function, and of those within it."""
    for node in walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
