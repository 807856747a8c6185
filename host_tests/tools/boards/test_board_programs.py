"""What the programs of the emulated boards import: whether it is there is known without an emulator."""

import ast

import pytest

from host_tests.emulated_boards.tasks import CODE, text
from inflight_tools.boards.build.bundle import files

# Of MicroPython, and of the tests.
_THERE = {"esp32", "gc", "json", "machine", "micropython", "os", "sys", "time", "vfs", "harness", "nor", "publisher"}


def imported(source):
    """Names of modules in the text of a program: in statements, and in the tuples of names that a loop imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module)
        elif isinstance(node, ast.For) and isinstance(node.iter, ast.Tuple) and ast.unparse(node.target) == "module":
            found |= set(ast.literal_eval(node.iter))
    return found


@pytest.mark.parametrize("board", ["rp2040", "esp32"])
def test_the_application_has_what_they_import(board):
    there = _THERE | {path.removeprefix("/lib/").removesuffix(".mpy").replace("/", ".") for path in files(board)}
    there.add("inflight")
    other = f"harness_{'esp32' if board == 'rp2040' else 'rp2040'}"
    missing = {path.stem: imported(text(path.stem)) - there for path in CODE.glob("*.py") if path.stem != other}
    assert not any(missing.values()), missing
