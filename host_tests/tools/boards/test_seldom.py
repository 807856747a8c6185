"""Methods that are seldom needed are lent on a board, and a program does not notice."""

import ast
import subprocess

import pytest

from inflight_tools.boards.bundle import library, shrunk
from inflight_tools.boards.loading import SELDOM
from tools.runtimes import device_run, runtime

_SCRIPT = """
import sys
from inflight import Client, Journal, RamFlash
client = Client("127.0.0.1", "d", Journal(RamFlash()), port=%d, backoff_ms=(1, 1))
place = %r
for call in (
    lambda: client.subscribe("a/#", qos=1, handler=print),
    lambda: client.publish("t", b"x", 1) and client.discard(1),
    client.connect_soon,
    client.disconnect,
):
    call()
    assert place not in sys.modules
try:
    client.connect()
except OSError:
    assert place not in sys.modules
try:
    client.nonsense
except AttributeError as e:
    print(e)
"""


def test_they_are_there_when_they_are_called():
    found = runtime("micropython-x64")
    if found.reason:
        pytest.skip(found.reason)
    with device_run.compiled() as lib:
        (place,) = (place for place, text in shrunk(library()).items() if "\ndef subscribe(" in text)
        place = place.replace("/", ".")
        command = [*found.command(), "-c", _SCRIPT % (1, place)]
        done = subprocess.run(command, env={"MICROPYPATH": f".frozen:{lib}"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "nonsense"


@pytest.mark.parametrize("module", SELDOM)
def test_no_subclass_asks_for_them_by_super(module):
    """A method found by __getattr__ is none of the base class."""
    _, cls, methods = SELDOM[module]
    for file in library().values():
        for heir in ast.walk(ast.parse(file.read_text())):
            if isinstance(heir, ast.ClassDef) and cls in map(ast.unparse, heir.bases):
                calls = [node for node in ast.walk(heir) if isinstance(node, ast.Attribute)]
                assert not [node for node in calls if ast.unparse(node.value) == "super()" and node.attr in methods]


def test_their_classes_do_not_have_them():
    client = shrunk(library())["inflight/client"]
    assert "def subscribe" not in client and "def publish" in client
