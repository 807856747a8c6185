"""The package of the fuzzers, and with it the targets."""

import sys
from pathlib import Path

TOOLS = str(Path(__file__).resolve().parents[2] / "tools")
if TOOLS not in sys.path:
    sys.path.insert(0, TOOLS)

import fuzz  # noqa: E402, F401 (it knows where the targets are)
