"""Writes the library as a package that mip installs: shrunk and compiled, as `deploy` puts it on a board."""

import ast
import json
from pathlib import Path
from typing import Annotated

import typer

import inflight
from inflight_tools import options
from inflight_tools.boards import bundle, native
from inflight_tools.boards.images import variants
from inflight_tools.cache import write_below
from inflight_tools.output import failing, show
from inflight_tools.sources import modules_in

_PACKAGE = "package.json"


def main(
    folder: Annotated[Path, typer.Argument(help="is made if it is missing; its files are replaced")] = Path(
        "build/library"
    ),
    board: options.BoardOrNone = None,
    bytecode: options.Bytecode = False,
):
    """Writes the library for `mpremote mip install FOLDER/package.json`: shrunk and compiled, for any board. With
    --board it is machine code for that board's processor where that counts, and the modules of the board are in it:
    board.journal_flash() is a place for a journal."""
    with failing():
        found = package(board, bytecode)
        write_below(folder, found)
        show(f"{folder / _PACKAGE}: {len(found) - 1} files, {sum(map(len, found.values())):,} bytes")


def package(board=None, bytecode=False):
    """{path: content} of a package: the library, and with `board`, a variant's or a folder's name, the modules of that
    board. ValueError if there is none of that name."""
    texts = bundle.shrunk(bundle.library())
    processor = ""
    if board:
        stock = variants.board(board).folder
        texts |= _of_board(stock)
        processor = "" if bytecode else variants.processor(board)
    files = {f"{place}.mpy": code for place, code in bundle.compile_texts(texts, processor).items()}
    found = {"version": inflight.__version__, "deps": [], "urls": [[path, path] for path in sorted(files)]}
    if processor:
        found["processor"] = processor  # for people: mip passes it by
        found["mpy"] = native.number(processor)
    return files | {_PACKAGE: json.dumps(found, indent=1).encode()}


def _of_board(folder):
    """{place: text} of the module board of this folder and of all that it uses. What asks for modules of the
    application is of the application."""
    files = {path.stem: path for where in ("common", folder) for path in modules_in(bundle.BOARDS / where)}
    application = {path.stem for path in modules_in(bundle.FIRMWARE)}
    texts = bundle.modules(folder)
    found = {}
    wanted = ["board"]
    while wanted:
        name = wanted.pop()
        if name not in files or name in found:
            continue
        imported = _imported(files[name])
        if not imported & application:
            found[name] = bundle.built() if name == "built" else texts[name]
            wanted += imported
    return found


def _imported(path):
    names = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}
