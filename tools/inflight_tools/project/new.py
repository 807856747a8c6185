"""Writes a project into a new folder, from the files below templates/."""

import enum
import re
from pathlib import Path
from typing import Annotated

import typer

from inflight_tools.boards import own
from inflight_tools.boards.images.variants import boards, variants
from inflight_tools.cache import write_below
from inflight_tools.output import failing, show
from inflight_tools.settings import known_drivers

_TEMPLATES = Path(__file__).with_name("templates")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")  # of a module, and of an entry of the configuration
_WORD = "template"  # stands for the name in the templates and in their names
_PINS = "PINS"  # stands for the list of pins


class Kind(enum.Enum):
    SENSOR = "sensor"


def main(
    kind: Annotated[Kind, typer.Argument(help="what it is: a sensor with a driver of your own")],
    name: Annotated[str, typer.Argument(help="of its folder and driver: small letters, digits and _")],
):
    """Writes a project into the new folder NAME: a configuration, a driver and rules in app/, tests, and a README that
    says what comes next. `inflight test` runs the tests; `inflight board flash` and `deploy`, and `inflight release`,
    take it from its folder."""
    if not _NAME.fullmatch(name):
        problem = f"{name!r}: write small letters, digits and _, a letter first, 32 at most, for example attic_2"
        raise typer.BadParameter(problem, param_hint="'name'")
    with failing():
        module = f"{kind.value}_{name}"
        if name in known_drivers(kind.value) or any(module in own.names_taken(board) for board in boards()):
            raise ValueError(f"{name}: the firmware has a driver of this name: choose another one")
        folder = Path(name)
        if folder.exists() or folder.is_symlink():
            raise ValueError(f"{folder} is there already: choose another name, or remove it")
        write_below(folder, _files(name))
        show(f"{folder}: README.md says what comes next")


def _files(name):
    # {path below the folder: content}
    found = {}
    pins = "\n".join(f"   | {one.title} | {one.analog} |" for one in variants())
    for path in sorted(_TEMPLATES.rglob("*")):
        if path.is_file() and path.suffix != ".pyc":
            place = path.relative_to(_TEMPLATES).as_posix().replace("gitignore", ".gitignore")
            text = path.read_text("utf-8").replace(_WORD, name).replace(_PINS, pins)
            found[place.replace(_WORD, name)] = text.encode()
    return found
