# Unloads drivers, and all else that is loaded for a check or an attempt and that the build does not know by name.

import sys


def since(before):
    """Unloads the modules that are not in `before`, the names in sys.modules at an earlier time."""
    for name in list(sys.modules):
        if name not in before:
            del sys.modules[name]
            package, _, module = name.rpartition(".")
            if hasattr(sys.modules.get(package), module):
                delattr(sys.modules[package], module)
