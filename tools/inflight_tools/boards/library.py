"""Writes the library as a package that mip installs: shrunk and compiled, as `deploy` puts it on a board."""

import json
from pathlib import Path
from typing import Annotated

import typer

import inflight
from inflight_tools import options
from inflight_tools.boards.build import bundle, native
from inflight_tools.boards.build.names import imported_modules
from inflight_tools.boards.connected import running_board, running_port
from inflight_tools.boards.deploy import fitting
from inflight_tools.boards.device import install
from inflight_tools.boards.device.files import read_record
from inflight_tools.boards.device.link import DeviceError, Link
from inflight_tools.boards.images import variants
from inflight_tools.cache import write_below
from inflight_tools.output import failing, show
from inflight_tools.sources import modules_in

_PACKAGE = "package.json"


def main(
    folder: Annotated[Path, typer.Argument(help="is made if it is missing; its files are replaced")] = Path(
        "build/library"
    ),
    board: options.AnyBoardOrNone = None,
    bytecode: options.Bytecode = False,
    port: options.PortOrNone = None,
    remove: Annotated[bool, typer.Option("--remove", help="take it away from the board")] = False,
    url: Annotated[
        str | None, typer.Option(help="where the folder will be served, for mip on a board: http://192.168.1.10:8000")
    ] = None,
):
    """Writes the library for `mpremote mip install FOLDER/package.json`: shrunk and compiled, for any board. With
    --board it is machine code for that board's processor where that counts, and the modules of the board are in it:
    board.journal_flash() is a place for a journal. With --url the package names whole addresses, as the mip of
    MicroPython up to 1.25 needs on a board. With --port it goes onto that board, beside your own files: all of it, or
    nothing if the cable is pulled; run it again then. --remove alone takes it from the board that is connected."""
    with failing(DeviceError, ValueError, OSError, RuntimeError):
        if remove and not port:
            port = running_port(board)
        if url and (port or not url.startswith(("http://", "https://"))):
            raise ValueError("--url is an address that begins with http:// or https://, and goes without --port")
        if not port:
            found = package(board, bytecode, url)
            write_below(folder, found)
            show(f"{folder / _PACKAGE}: {len(found) - 1} files, {sum(map(len, found.values())):,} bytes")
            return
        with Link(port) as link:
            if remove:
                removed, kept = install.remove(link)
                show(f"{len(removed)} files removed")
                for path in kept:
                    show(f"{path} has changed since, and stays")
                return
            place = variants.board(board or running_board(link)).folder
            plan = put(link, place, bytecode, lambda text: show(f"  {text}"))
        show(f"{len(plan.write)} files written, {len(plan.stale)} removed, {plan.same} were there already")


def put(link, board, bytecode, say):
    """Installs the library and the modules of the board in folder `board`. Returns the executed Plan. Raises
    DeviceError."""
    if install.has_application(read_record(link)):
        raise DeviceError("the application is on the board: `inflight board deploy` brings it its library")
    processor = "" if bytecode else fitting(link, board, say)
    found = {f"/lib/{path}": code for path, code in _files(board, processor).items()}
    return install.install(link, board, found, {}, say=say)


def package(board=None, bytecode=False, url=None):
    """{path: content} of a package: the library, and with `board`, a variant's or a folder's name, the modules of that
    board; its files are found below `url`, or beside package.json. ValueError if there is no board of that name."""
    processor = variants.processor(board) if board and not bytecode else ""
    files = _files(variants.board(board).folder if board else None, processor)
    below = url.rstrip("/") + "/" if url else ""
    found = {"version": inflight.__version__, "deps": [], "urls": [[path, below + path] for path in sorted(files)]}
    if processor:
        found["processor"] = processor  # for people: mip passes it by
        found["mpy"] = native.number(processor)
    return files | {_PACKAGE: json.dumps(found, indent=1).encode()}


def _files(board, processor):
    # {path below /lib: .mpy}
    texts = _with_modules_of(board) if board else bundle.shrunk(bundle.library())
    return {f"{place}.mpy": code for place, code in bundle.compile_texts(texts, processor).items()}


def _with_modules_of(folder):
    """{place: text} of the library, of a board's modules for programs of one's own, and of all that they use. What asks
    for modules of the application is of the application."""
    files = {path.stem: path for where in ("common", folder) for path in modules_in(bundle.BOARDS / where)}
    application = {path.stem for path in modules_in(bundle.FIRMWARE)}
    texts = bundle.shrunk(bundle.sources(folder))
    found = {place: text for place, text in texts.items() if "/" in place}
    wanted = ["board", "connectivity"]
    while wanted:
        name = wanted.pop()
        if name not in files or name in found:
            continue
        imported = imported_modules(files[name].read_text("utf-8"))
        if not imported & application:
            found[name] = bundle.built() if name == "built" else texts[name]
            wanted += imported
    return found
