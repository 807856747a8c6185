"""Runs the tests of a project on this computer as the board unix: on MicroPython's unix port, or on CPython."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from inflight_tools.boards import own
from inflight_tools.output import failing, show
from inflight_tools.settings import APP
from inflight_tools.sources import device_sources, search_path

_RUNNER = Path(__file__).with_name("run_tests.py")
_BOARD = "unix"


def main(
    folder: Annotated[Path, typer.Argument(help="of the project", show_default="this one")] = Path(),
    micropython: Annotated[
        Path | None, typer.Option(help="MicroPython's unix port", show_default="the one on PATH; without one, Python")
    ] = None,
):
    """Runs the tests of a project, each function test_* of the modules test_*.py in its folder tests/, with the code
    that its devices have: the modules in app/, the firmware and the library, on the board unix."""
    with failing():
        names = sorted(path.stem for path in (folder / "tests").glob("test_*.py"))
        if not names:
            raise ValueError(f"no tests in {folder / 'tests'}: `inflight new sensor NAME` writes a project with some")
        app = folder / APP
        own.files(app if app.is_dir() else None, _BOARD)  # what a device would not take is told
        interpreter = micropython or shutil.which("micropython") or sys.executable
        if status := _run(interpreter, names, folder.absolute()):
            problem = "the tests have failed" if status == 1 else f"the tests ended with status {status}"
            raise RuntimeError(f"{problem}, on {interpreter}")
        show(f"all tests passed, on {interpreter}")


def _run(interpreter, names, folder):
    # The exit status of the tests.
    sources = device_sources()
    code = [sources.boards / _BOARD, sources.boards / "common", *search_path(sources.firmware), sources.lib]
    path = ":".join(map(str, [folder / "tests", folder / APP, *code]))
    program = f"{_RUNNER.read_text('utf-8')}\nmain({names!r})\n"
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "MICROPYPATH": f".frozen:{path}", "PYTHONPATH": path.replace(":", os.pathsep)}
        env |= {"INFLIGHT_HOME": home, "INFLIGHT_DEVICE_ID": "test", "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run([interpreter, "-c", program], cwd=folder / "tests", env=env).returncode
