"""The programs that emulated boards run in these tests."""

import ast
import os
import subprocess

import pytest

from host_tests.emulated_boards.tasks import CODE
from inflight_tools.boards.build.loading import PACKAGE
from tools.runtimes import runtime
from tools.runtimes.device_run import deployed


def imports_of_the_library(file):
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module]
        else:
            continue
        if any(module.split(".")[0] == PACKAGE for module in modules):
            yield ast.unparse(node)


@pytest.mark.parametrize("file", sorted(CODE.glob("*.py")), ids=lambda file: file.stem)
def test_a_deployed_library_has_what_it_imports(file):
    """Deployed, it has less than its sources: no const(), for example."""
    found = runtime("micropython-x64")
    if found.reason:
        pytest.skip(found.reason)
    program = "\n".join(imports_of_the_library(file))
    environment = os.environ | {"MICROPYPATH": f".frozen:{deployed()}"}
    done = subprocess.run([*found.command(), "-c", program], env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr
