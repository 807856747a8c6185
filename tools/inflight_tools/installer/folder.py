"""A folder with a web page that installs boards from the browser: ESP32 boards over Web Serial by esp-web-tools, Picos
by a file to copy. It has no configuration in it: whoever installs a board sets it up afterwards."""

import contextlib
import functools
import http.server
import json
from pathlib import Path
from typing import Annotated

import typer
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

import inflight
import inflight_tools
from inflight_tools import options
from inflight_tools.boards import own
from inflight_tools.boards.images.board_image import make_bare
from inflight_tools.boards.images.firmware import NoFirmware
from inflight_tools.boards.images.variants import names, variant
from inflight_tools.cache import write_below
from inflight_tools.installer.web_tools import web_tools
from inflight_tools.output import failing, show

_PAGE = Environment(loader=PackageLoader("inflight_tools.installer"), autoescape=True, undefined=StrictUndefined)
_STYLES = Path(inflight_tools.__file__).with_name("base.css"), Path(__file__).with_name("page.css")
_HERE = "127.0.0.1"  # browsers offer serial ports to HTTPS and to this host
_IMPROV_S = 30  # a new board makes its file system and scans for networks before it answers


def main(
    out: Annotated[Path, options.out("folder of the page", "build/installer")] = Path("build/installer"),
    board: options.Boards = None,
    board_firmware: Annotated[
        list[str] | None, typer.Option(help="BOARD=FILE: MicroPython for that board; default: the pinned one")
    ] = None,
    app: options.AppHere = None,
    web_tools_file: Annotated[
        Path | None, typer.Option("--web-tools", help="the package of esp-web-tools; default: npm fetches it")
    ] = None,
    serve: Annotated[
        int | None, typer.Option(min=0, max=65535, help="serve the folder on this port of this computer; 0: any")
    ] = None,
):
    """Makes a page that installs boards from the browser, without a program or a cable's driver on that computer: a
    folder, to be served by any web server over HTTPS. --board and --board-firmware may be repeated. If a firmware
    cannot be had, the page has the other boards, and the exit status is 1."""
    with failing():
        missing = write(out, board, board_firmware, web_tools_file, own.folder_of(app))
        for name, why in missing.items():
            typer.echo(f"no image for {name}: {why}", err=True)
        show(f"{out / 'index.html'}")
        if serve is not None:
            _serve(out, serve)
        if missing:
            raise RuntimeError(f"the page has no image for {', '.join(missing)}: see above, and run it again")


def write(out, boards=None, firmware=None, web_tools_file=None, app=None):
    """Writes the page and what it installs into folder `out`; arguments: see main(). Returns {board: why it is not on
    the page} of those whose firmware cannot be had. ValueError with one line, also if that is so of all."""
    named = _named(firmware or ())
    images, missing = {}, {}
    for name in boards or names():
        try:
            images[name] = make_bare(variant(name), named.get(name), f"name it with --board-firmware {name}=FILE", app)
        except NoFirmware as e:
            missing[name] = str(e)
            if len(missing) == len(boards or names()):
                raise
    files = {f"web/{name}": content for name, content in web_tools(web_tools_file).items()}
    builds, picos = [], []
    for image in images.values():
        if image.variant.image == "uf2":
            path = f"inflight-{image.variant.name}{image.suffix}"
            files[path] = image.file()
            picos.append({"name": image.variant.title, "path": path, "drive": image.variant.drive})
        else:
            parts = []
            for _, at, content in image.pieces():
                parts.append({"path": f"{image.variant.name}/{at:06x}.bin", "offset": at})
                files[parts[-1]["path"]] = content
            builds.append({"chipFamily": image.variant.title, "parts": parts})
    files["manifest.json"] = json.dumps(_manifest(builds), indent=1).encode()
    page = _PAGE.get_template("index.html").render(
        version=inflight.__version__,
        chips=[build["chipFamily"] for build in builds],
        picos=picos,
        style=Markup("".join(path.read_text(encoding="utf-8") for path in _STYLES)),
    )
    files["index.html"] = page.encode()
    write_below(out, files)
    return missing


def _named(firmware):
    # {board: path} of the arguments BOARD=FILE.
    found = {}
    for word in firmware:
        name, _, path = word.partition("=")
        if not path:
            problem = "it takes BOARD=FILE, for example esp32c6=ESP32_GENERIC_C6-20251209-v1.27.0.bin"
        elif name not in names():
            problem = f"{name!r} is not one of {', '.join(names())}"
        else:
            found[name] = Path(path)
            continue
        raise typer.BadParameter(problem, param_hint="'--board-firmware'")
    return found


def _manifest(builds):
    # Without erasing, which the page asks for, the journal's partition stays: it is in none of the parts.
    return {
        "name": "Inflight",
        "version": inflight.__version__,
        "new_install_prompt_erase": True,
        "new_install_improv_wait_time": _IMPROV_S,
        "builds": builds,
    }


def server(folder, port):
    """A web server of the folder, on this computer alone; port 0: any. It is to be started, and closed."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    return http.server.ThreadingHTTPServer((_HERE, port), handler)


def _serve(folder, port):
    with server(folder, port) as running, contextlib.suppress(KeyboardInterrupt):
        show(f"http://{_HERE}:{running.server_port}/ (Ctrl-C ends it)")
        running.serve_forever()
