"""Methods that are seldom needed are lent on a board, and a program does not notice."""

import ast
import subprocess
from itertools import chain

import pytest

from inflight_tools.boards.build.bundle import library, shrunk, sources
from inflight_tools.boards.build.loading import OCCASIONAL, SELDOM
from tools.runtimes import device_run, runtime

BOARDS = ("esp32", "rp2040", "unix")
_SCRIPT = """
import sys
from inflight import Client, Journal, RamFlash
client = Client("127.0.0.1", "d", Journal(RamFlash()), port=%d, backoff_ms=(1, 1))
place = %r
for call in (
    lambda: client.subscribe("a/#", qos=1, handler=print),
    lambda: client.publish("t", b"x", 1) and client.discard(1),
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
_MERGED = {"radio": ("wifi",)}  # modules that become one


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


@pytest.mark.parametrize("module", [*SELDOM, *OCCASIONAL])
def test_no_subclass_asks_for_them_by_super(module):
    """A method found by __getattr__ is none of the base class, but for the constructor."""
    origin, classes = (SELDOM | OCCASIONAL)[module]
    bases = {name: cls for cls in classes for name in (cls, f"{origin}.{cls}")}
    for file in [*library().values(), *chain(*(sources(board).values() for board in BOARDS))]:
        for heir in ast.walk(ast.parse(file.read_text())):
            for cls in bases.keys() & map(ast.unparse, getattr(heir, "bases", ())):
                calls = [node for node in ast.walk(heir) if isinstance(node, ast.Attribute)]
                asked = {node.attr for node in calls if ast.unparse(node.value) in ("super()", cls)}
                assert not asked & {*classes[bases[cls]]} - {"__init__"}


@pytest.mark.parametrize("board", BOARDS)
def test_the_application_has_them_in_modules_of_their_own(board):
    texts = shrunk(sources(board), application=True)
    found = {place: row for place, row in OCCASIONAL.items() if row[0] in texts}
    assert {"node_more", "app_more"} <= {*found}
    for place, (origin, classes) in found.items():
        files = [file for file in sources(board).values() if file.stem in (origin, *_MERGED.get(origin, ()))]
        there = [
            method.name
            for file in files
            for of in ast.walk(ast.parse(file.read_text()))
            if isinstance(of, ast.ClassDef) and of.name in classes
            for method in of.body
            if isinstance(method, ast.FunctionDef) and method.name in classes[of.name]
        ]
        moved = [node for node in ast.parse(texts[place]).body if isinstance(node, ast.FunctionDef)]
        assert len(moved) == len(there) + len(classes.get("", ())) and "super()" not in texts[place]


def test_their_classes_do_not_have_them():
    client = shrunk(library())["inflight/client"]
    assert "def subscribe" not in client and "def publish" in client
