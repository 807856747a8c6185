"""Methods that are seldom needed are lent on a board, and a program does not notice."""

import ast
from itertools import chain

import pytest

from inflight_tools.boards.build.bundle import library, modules, shrunk, sources
from inflight_tools.boards.build.loading import OCCASIONAL, SELDOM

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


def test_they_are_there_when_they_are_called(micropython):
    texts = shrunk(library())
    assert "def subscribe" not in texts["inflight/client"] and "def publish" in texts["inflight/client"]
    (place,) = (place for place, text in texts.items() if "\ndef subscribe(" in text)
    assert micropython(_SCRIPT % (1, place.replace("/", "."))) == "nonsense\n"


def test_no_subclass_asks_for_them_by_super():
    """A method found by __getattr__ is none of the base class, but for the constructor."""
    files = {*library().values(), *chain(*(sources(board).values() for board in BOARDS))}
    heirs = [node for file in files for node in ast.walk(ast.parse(file.read_text())) if getattr(node, "bases", ())]
    for origin, classes in (SELDOM | OCCASIONAL).values():
        bases = {name: cls for cls in classes for name in (cls, f"{origin}.{cls}")}
        for heir in heirs:
            for cls in bases.keys() & map(ast.unparse, heir.bases):
                calls = [node for node in ast.walk(heir) if isinstance(node, ast.Attribute)]
                asked = {node.attr for node in calls if ast.unparse(node.value) in ("super()", cls)}
                assert not asked & {*classes[bases[cls]]} - {"__init__"}


@pytest.mark.parametrize("board", BOARDS)
def test_the_application_has_them_in_modules_of_their_own(board):
    texts = modules(board)
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
