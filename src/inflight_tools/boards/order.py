"""Puts the names that a module uses most at the front of its table. Each use of a name in bytecode is an index into
the table of its module, whose first 128 entries take one byte and the others two. mpy-cross enters names as it meets
them, attributes first."""

import ast
from collections import Counter

_SHORT = 128 - 4  # indices of one byte, less those that mpy-cross takes for itself
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def order(tree):
    """Makes the module `tree` begin with a statement that is never executed, and mentions these names. A module's own
    code is garbage after its import, so it costs no heap. Does nothing to a module with few names."""
    uses = Counter(_uses(tree))
    if len(uses) <= _SHORT:
        return
    names = [name for name, _ in uses.most_common(_SHORT)]
    tree.body[:0] = ast.parse(f"if not __name__:\n    __name__.{'.'.join(names)}").body


def _uses(node, variables=None):
    # The names in the functions of `node`, once for each use. variables: of the functions around it, which have no
    # names in bytecode; None: there is no function around it.
    if isinstance(node, _FUNCTIONS):
        variables = {*_variables(node), *(variables or ())}
        yield node.name
        yield from (arg.arg for arg in node.args.args)
    elif variables is not None:
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name) and node.id not in variables:
            yield node.id
    for child in ast.iter_child_nodes(node):
        yield from _uses(child, variables)


def _variables(function):
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
