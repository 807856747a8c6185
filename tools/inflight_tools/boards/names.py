"""Which names of a module stand in its bytecode: all but those of variables in functions."""

import ast

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def uses(node, variables=frozenset()):
    """The names in the bytecode of `node`, once for each use. variables: of the functions around it."""
    if isinstance(node, _FUNCTIONS):
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
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.arg) and child is not getattr(node, "returns", None):  # types are in no bytecode
            yield from uses(child, variables)


def uses_in_functions(tree):
    """The same of the functions of a module, without what is garbage when it is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, _FUNCTIONS):
            yield from uses(node)
        else:
            yield from uses_in_functions(node)


def variables_of(function):
    """The arguments and variables of a function, and of those within it."""
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
