"""Writes the library in the form that needs the least heap when frozen: `inflight board freeze FOLDER`, then, in a
port of MicroPython, `make FROZEN_MANIFEST=FOLDER/manifest.py`."""

from pathlib import Path
from typing import Annotated

import typer

from inflight_tools.boards.bundle import library, shrunk
from inflight_tools.boards.rename import PACKAGE

_MANIFEST = f"""# Beside what the port freezes itself: include() its manifest here, or this one from yours.
package("{PACKAGE}", opt=3)
"""


def main(folder: Annotated[Path, typer.Argument(help="is made if it is missing; its files are replaced")]):
    """Writes the library to freeze into a firmware: FOLDER/inflight and FOLDER/manifest.py."""
    (folder / PACKAGE).mkdir(parents=True, exist_ok=True)
    for place, text in shrunk(library()).items():
        (folder / f"{place}.py").write_text(text)
    (folder / "manifest.py").write_text(_MANIFEST)
