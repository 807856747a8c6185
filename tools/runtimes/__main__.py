"""Prints the interpreters, and why one is unavailable."""

import shlex

from tools.runtimes import runtimes

for found in runtimes():
    print(f"{found.name:18}", shlex.join(found.argv) if found.argv else f"unavailable: {found.reason}")
