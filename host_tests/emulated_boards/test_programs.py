"""What the programs of the emulated boards import is there: known without an emulator."""

import ast
import os
import subprocess

import pytest

from host_tests.absent import interpreter
from host_tests.emulated_boards.tasks import CODE, text
from inflight_tools.boards.build.bundle import files
from inflight_tools.boards.build.loading import PACKAGE
from tools.runtimes.device_run import deployed

# Of MicroPython, and of the tests.
_THERE = {"esp32", "gc", "json", "machine", "micropython", "os", "sys", "time", "vfs"}
_THERE |= {"account", "harness", "nor", "publisher", PACKAGE}


def imported(source):
    """{statement: names of modules} in the text of a program; "loop": those in a tuple of names that a loop imports."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found[ast.unparse(node)] = {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found[ast.unparse(node)] = {node.module}
        elif isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple) and ast.unparse(node.target) == "module":
            found["loop"] = set(ast.literal_eval(node.iter))
    return found


@pytest.mark.parametrize("board", ["rp2040", "esp32"])
def test_the_application_has_what_they_import(board):
    there = _THERE | {path.removeprefix("/lib/").removesuffix(".mpy").replace("/", ".") for path in files(board)}
    other = f"harness_{'esp32' if board == 'rp2040' else 'rp2040'}"
    programs = {path.stem: imported(text(path.stem)).values() for path in CODE.glob("*.py") if path.stem != other}
    missing = {name: set().union(*found) - there for name, found in programs.items()}
    assert not any(missing.values()), missing


def test_a_deployed_library_has_what_they_import():
    """Deployed, it has less than its sources: no const(), for example."""
    found = interpreter("micropython-x64")
    programs = [imported(file.read_text()) for file in CODE.glob("*.py")]
    statements = {one for imports in programs for one in imports if f" {PACKAGE}" in one}
    environment = os.environ | {"MICROPYPATH": f".frozen:{deployed()}"}
    command = [*found.command(), "-c", "\n".join(sorted(statements))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert statements and not done.returncode, done.stderr
