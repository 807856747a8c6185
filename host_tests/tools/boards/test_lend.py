"""What a function imports is given back on a board, and no source says so."""

import ast

import pytest

from inflight_tools.boards.build.bundle import deployed_name, library
from inflight_tools.boards.build.kept import kept
from inflight_tools.boards.build.loading import LENT
from inflight_tools.boards.build.shrink import shrink

TEXTS = {place: file.read_text() for place, file in library().items()}
SHORT = [deployed_name(f"inflight.{name}").rpartition(".")[2] for name in LENT]
ARGUMENTS = deployed_name("inflight.arguments").rpartition(".")[2]
_SCRIPT = """
import sys
%s
from inflight import Client, Journal, OutboxFull, RamFlash

def loaded():
    return sorted(name[9:] for name in sys.modules if name[9:] in %r)

print(loaded())
client = Client("broker.example", "d", Journal(RamFlash()), when_full="oldest", on_error=str)
client.subscribe("a/#", 1, print)
for _ in range(90):
    client.publish("t", bytes(90), 1)
assert client.counters()["dropped"]
messages = client.pending_messages()
assert client.discard(next(messages)[0])
client.session.journal.recover()
for wrong in ("", "a/#/b"):
    try:
        client.subscribe(wrong)
    except ValueError as e:
        assert str(e)
try:
    client.connect()
except OSError:
    pass
assert len(list(messages)) > 1
print(loaded())
"""


@pytest.mark.parametrize(
    ("first", "loaded"),
    [("", "[]"), (f"import {deployed_name('inflight.arguments')}", f"['{ARGUMENTS}']")],
    ids=["borrowed", "imported before"],
)
def test_what_was_borrowed_is_given_back(micropython, first, loaded):
    """Also where a call fails. A generator keeps what it needs. A module that the program has imported stays."""
    assert micropython(_SCRIPT % (first, SHORT)).splitlines() == [loaded] * 2


def _shrunk(text):
    few = {"inflight/__init__": "", "inflight/compat": "", "inflight/arguments": "def flag(x): pass"}
    return shrink(few | {"mine": text})["mine"]


def borrows(body, argument="x"):
    """A function that imports from a module which is lent, and does this."""
    return f"def f({argument}):\n{body.replace('IMPORT', 'from inflight.arguments import flag')}\n"


def test_the_block_of_an_import_gives_back():
    text = borrows("    if x:\n        IMPORT\n        return flag(x)")
    scope = {}
    exec("\n".join(line for line in _shrunk(text).splitlines() if "inflight.core" not in line), scope)
    given = []
    scope.update(lent=["before"], give_back=given.append)
    assert scope["f"](0) is None and not given
    with pytest.raises(TypeError):  # of the one that is imported
        scope["f"](1)
    assert given == [1]


def test_it_is_given_back_behind_the_last_statement_that_uses_it():
    text = _shrunk(borrows("    IMPORT\n    y = flag(x)\n    y += 1\n    return g(y)"))
    assert text.rstrip().endswith("give_back(loaded)\n    y += 1\n    return g(y)")


@pytest.mark.parametrize(
    "text, told",
    [
        (borrows("    if x:\n        IMPORT\n    return flag"), "uses flag behind the block"),
        (borrows("    IMPORT\n    return lambda: flag()"), "may hand on what it borrows"),
        (borrows("    IMPORT\n    return (flag(each) for each in y)"), "may hand on what it borrows"),
        (borrows("    IMPORT\n    return flag(loaded)", "loaded"), "has a variable `loaded`"),
    ],
    ids=["behind", "lambda", "generator", "variable"],
)
def test_what_cannot_be_given_back_is_refused(text, told):
    with pytest.raises(ValueError, match=r"mine: f\(\) " + told):
        _shrunk(text)


def test_what_is_compared_or_caught_stays():
    """A class of a module that is loaded again is another one."""
    texts = kept(shrink, TEXTS)
    trees = {place: ast.parse(text) for place, text in texts.items()}
    defined = {node.name for name in LENT for node in ast.walk(trees.get(f"inflight/{name}", ast.Pass()))
               if isinstance(node, ast.ClassDef)}  # fmt: skip
    bases = {ast.unparse(base) for tree in trees.values() for node in ast.walk(tree)
             if isinstance(node, ast.ClassDef) and node.name in defined for base in node.bases}  # fmt: skip
    assert not [base for base in bases if "Error" in base or "Exception" in base]
    for tree in trees.values():
        for node in ast.walk(tree):
            named = None
            if isinstance(node, ast.ExceptHandler):
                named = node.type
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
                named = node.args[1]
            elif isinstance(node, ast.Compare):
                named = node
            names = {part.id for part in ast.walk(named) if isinstance(part, ast.Name)} if named else set()
            assert not names & defined


def test_no_source_gives_back():
    assert not [place for place, text in TEXTS.items() if "unload" in text or "sys.modules" in text]


def test_what_each_message_runs_through_is_loaded_once():
    """With the first subscription, or by the first message: no other function imports it."""
    found = kept(shrink, TEXTS)
    naming = {place: text.count("inflight.receiving") for place, text in found.items()}
    assert {place: n for place, n in naming.items() if n} == {"inflight/core": 1}
    functions = [node for node in ast.walk(ast.parse(found["inflight/receiving"])) if isinstance(node, ast.FunctionDef)]
    loaded = {node.module for each in functions for node in ast.walk(each) if isinstance(node, ast.ImportFrom)}
    assert loaded == {"handlers", "message5", "undelivered", "long_message"}  # by the first one, or by odd ones
