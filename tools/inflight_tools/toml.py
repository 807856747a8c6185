"""TOML, which Python reads by itself from 3.11 on."""

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read(path: Path) -> dict[str, Any]:
    """What is in the file. ValueError if it is no TOML."""
    return tomllib.loads(path.read_text("utf-8"))
