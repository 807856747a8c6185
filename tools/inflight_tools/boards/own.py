"""Modules of one's own in the folder `app` beside the configuration: drivers, and rules. They go where the
application's go."""

import re
from pathlib import Path

from inflight_tools.boards.build.bundle import compile_mpy, sources
from inflight_tools.boards.build.loading import OCCASIONAL
from inflight_tools.boards.build.names import imported_modules
from inflight_tools.settings import APP

RULES = "rules"  # the module that the application calls with each reading
_NO_RULES = "on_reading = None\n"
_NAME = re.compile(r"[a-z_][a-z0-9_]*")
_WHERE = re.compile(r'File "[^"]*", line (\d+)')


def folder_of(app: Path | None, config: Path | None = None) -> Path | None:
    """The folder of one's own modules: `app`, or else the folder beside the configuration, without one below the
    present folder; None if there is none. ValueError if there is no folder `app`."""
    if app:
        if not app.is_dir():
            raise ValueError(f"no folder {app}: --app names that of your modules")
        return app
    found = (config.parent if config else Path()) / APP
    return found if found.is_dir() else None


def files(folder: Path | None, board: str) -> dict[str, bytes]:
    """{absolute path on the device: .mpy} of the modules in `folder`, for the board in folder `board`. ValueError, one
    line, if something else is there, a module has the name of one that the application has or uses, or does not
    compile."""
    found = _found(folder) if folder else {}
    taken = names_taken(board) if found else set()
    for name, path in found.items():
        if name in taken:
            raise ValueError(f"{path}: the application has or uses a module of this name: choose another one")
    return {f"/lib/{name}.mpy": _compiled(name, path) for name, path in found.items()}


def released(own: dict[str, bytes]) -> dict[str, bytes]:
    """files() for a release: one without rules hides those that an earlier one, or a cable, has brought."""
    return {f"/lib/{RULES}.mpy": compile_mpy(_NO_RULES, RULES)} | own


def _found(folder: Path) -> dict[str, Path]:
    """{name of a module: its file}."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == "__pycache__":
            continue
        if path.suffix != ".py" or not path.is_file():
            raise ValueError(f"{path}: only modules (.py) go onto a device: move it out of {folder}")
        if not _NAME.fullmatch(path.stem):
            raise ValueError(f"{path}: name a module with small letters, digits and _")
        found[path.stem] = path
    return found


def names_taken(board: str) -> set[str]:
    """Names of the application's modules on this board, and of those that they import."""
    mine = sources(board)
    imported = (imported_modules(path.read_text("utf-8")) for path in mine.values())
    return {*mine, *OCCASIONAL}.union(*imported) - {RULES}


def _compiled(name: str, path: Path) -> bytes:
    try:
        # With line numbers: its errors are those of whoever wrote it.
        return compile_mpy(path.read_text("utf-8"), name, "-O0")
    except UnicodeDecodeError:
        raise ValueError(f"{path}: not UTF-8: save it as that") from None
    except RuntimeError as e:
        lines = _WHERE.findall(str(e))
        where = f", line {lines[-1]}" if lines else ""
        raise ValueError(f"{path}{where}: {str(e).splitlines()[-1]}") from None
