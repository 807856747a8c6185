"""Puts the names that a module uses most at the front of its table. Each use of a name in bytecode is an index into
the table of its module, whose first 128 entries take one byte and the others two. mpy-cross enters names as it meets
them, attributes first."""

import ast
from collections import Counter

from inflight_tools.boards.build.names import uses_in_functions

_SHORT = 128 - 4  # indices of one byte, less those that mpy-cross takes for itself


def order(tree):
    """Makes the module `tree` begin with a statement that is never executed, and mentions these names. A module's own
    code is garbage after its import, so it costs no heap. Does nothing to a module with few names."""
    uses = Counter(uses_in_functions(tree))
    if len(uses) <= _SHORT:
        return
    names = [name for name, _ in uses.most_common(_SHORT)]
    tree.body[:0] = ast.parse(f"if not __name__:\n    __name__.{'.'.join(names)}").body
