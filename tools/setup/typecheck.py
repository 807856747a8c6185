"""Type-checks the device code against the stubs of each port that it runs on, and the tools: part of `make lint`."""

import subprocess
import sys

from inflight_tools.boards.build.bundle import BOARDS, FIRMWARE, LIB, sources
from inflight_tools.boards.images.variants import boards
from inflight_tools.cache import cache_dir
from inflight_tools.sources import search_path
from tools.setup.common import CHECKOUT, SetupError, atomic_folder, digest, exclusive, run, say

LOCKS = CHECKOUT / "tools" / "setup" / "stubs"
PORTS = {name: board.port for name, board in boards().items() if board.port}


def stubs(port):
    """The folder with the stubs of MicroPython's `port`; they are installed if they are not there. Each port has its
    own, because all of them call their modules the same."""
    lock = LOCKS / f"{port}.lock"
    parent = cache_dir() / "stubs"
    with exclusive(parent):
        folder = parent / f"{port}-{digest(lock)}"
        if not folder.is_dir():
            say(f"installing the stubs of {lock.name}")
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps"]
            with atomic_folder(folder) as work:
                run([*pip, "--require-hashes", "--target", work, "-r", lock], "pip")
    return folder


def check(board):
    """Checks everything that the board in folder `board` carries. Returns mypy's exit status."""
    folder = stubs(PORTS[board])
    path = [LIB, BOARDS, BOARDS / "common", BOARDS / board, *search_path(FIRMWARE), folder]
    options = ["--config-file", LOCKS / "mypy.ini", "--custom-typeshed-dir", folder, *sources(board).values()]
    interface = LOCKS / "conforms.py"
    return mypy(board, [*options, interface], {"MYPYPATH": ":".join(map(str, path))})


def mypy(name, options, env):
    """Runs mypy, with a cache for `name`. Returns its exit status."""
    cache = CHECKOUT / "build" / "mypy" / name
    command = [sys.executable, "-m", "mypy", "--cache-dir", cache, *options]
    print(f"{name}:", end=" ", flush=True)
    return subprocess.run(list(map(str, command)), env=env, cwd=CHECKOUT).returncode


def check_tools():
    """Checks all of tools/ by the settings in pyproject.toml; inflight_tools by the name that it has when installed.
    Returns mypy's exit status."""
    names = {path.stem for path in (CHECKOUT / "tools").iterdir() if path.is_dir() or path.suffix == ".py"}
    own = sorted(f"tools.{name}" for name in names - {"inflight_tools", "grafana", "__init__", "__pycache__"})
    return mypy("tools", [word for name in ["inflight_tools", *own] for word in ("-p", name)], {})


def main():
    try:
        return max([*(check(board) for board in PORTS), check_tools()])
    except SetupError as error:
        say(f"error: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
