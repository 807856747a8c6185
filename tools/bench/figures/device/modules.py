# The heap that each module of Inflight uses, in the order of import. Prints JSON.

import json
import sys

import loaded  # noqa: F401
from held import held

found = {}
before = held()
for module in sys.argv[1].split():
    __import__("inflight." + module)
    now = held()
    found[module] = now - before
    before = now
print(json.dumps(found))
