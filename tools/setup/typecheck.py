"""Type-checks the device code against the stubs of each port that it runs on: part of `make lint`."""

import subprocess
import sys
import tempfile

from inflight_tools.boards.bundle import BOARDS, FIRMWARE, LIB, sources
from inflight_tools.cache import cache_dir
from inflight_tools.sources import search_path
from tools.setup.common import CHECKOUT, SetupError, digest, exclusive, run, say

LOCKS = CHECKOUT / "tools" / "setup" / "stubs"
PORTS = {"esp32": "esp32", "rp2040": "rp2"}  # folder below boards/: MicroPython's port


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
            with tempfile.TemporaryDirectory(dir=parent) as half:
                run([*pip, "--require-hashes", "--target", f"{half}/it", "-r", lock], "pip")
                (parent / half / "it").rename(folder)
    return folder


def check(board):
    """Checks everything that the board in folder `board` carries. Returns mypy's exit status."""
    folder = stubs(PORTS[board])
    path = [LIB, BOARDS / "common", BOARDS / board, *search_path(FIRMWARE), folder]
    command = [sys.executable, "-m", "mypy", "--config-file", LOCKS / "mypy.ini"]
    command += ["--custom-typeshed-dir", folder, "--cache-dir", CHECKOUT / "build" / "mypy" / board]
    command += sources(board).values()
    print(f"{board}:", end=" ", flush=True)
    return subprocess.run(command, env={"MYPYPATH": ":".join(map(str, path))}, cwd=CHECKOUT).returncode


def main():
    try:
        return max([check(board) for board in PORTS])
    except SetupError as error:
        say(f"error: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
