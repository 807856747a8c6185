"""What turns messages into rows, without Spark."""

import sys
from pathlib import Path

TOOLS = str(Path(__file__).resolve().parents[3] / "tools")
if TOOLS not in sys.path:
    sys.path.insert(0, TOOLS)
