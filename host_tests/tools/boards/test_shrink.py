"""The source compiled for boards is smaller than the checkout's, and behaves the same."""

import ast
import re
import shutil
from pathlib import Path

import pytest

from inflight_tools.boards.build import loading
from inflight_tools.boards.build.bundle import deployed_name, library, modules
from inflight_tools.boards.build.kept import kept
from inflight_tools.boards.build.loading import APART, GROUPS, MERGED, PARTS, PUBLIC, RESIDENT
from inflight_tools.boards.build.names import defined
from inflight_tools.boards.build.shrink import shrink

TEXTS = {place: file.read_text() for place, file in library().items()}


def test_modules_that_are_always_loaded_together_become_one():
    found = kept(shrink, TEXTS)
    inside = {f"inflight/{name}" for name in {*MERGED, *sum(PARTS.values(), ())}.difference(PUBLIC)}
    assert set(found) == {*library(), *(f"inflight/{name}" for name in (*APART, *GROUPS, *PARTS, "texts"))} - inside
    assert max(len(found[f"inflight/{module}"]) for module in PUBLIC) < 600
    assert "class Session" in found["inflight/core"] and "class Journal" in found["inflight/journal_core"]


@pytest.mark.parametrize(
    "text, wanted",
    [
        (  # constants become numbers in other modules, too
            "from inflight.packet import PUBLISH\nimport inflight.packet as packet\nx = (PUBLISH, packet.PUBLISH)\n",
            "import inflight.core as packet\nx = (3, 3)\n",
        ),
        ('def f():\n    """Text."""\n', "def f():\n    pass\n"),
        (  # code for CPython
            "if sys.implementation.name != 'micropython':\n    from inflight.cpython import x\nelse:\n    x = 1\n",
            "x = 1\n",
        ),
        (  # MicroPython's own modules are imported without a look at files
            "import os, sys\nimport time as t\n\ndef f():\n    from errno import EIO\n    import mine.os\n",
            "import uos as os, sys\nimport utime as t\n\ndef f():\n    from uerrno import EIO\n    import mine.os\n",
        ),
    ],
    ids=["constants", "docstrings", "CPython", "own modules"],
)
def test_what_becomes_of_a_module(text, wanted):
    """Beside a library of which little is there."""
    packet = "from .compat import const\nPUBLISH = const(3)"
    few = {"inflight/compat": "def const(x): return x", "inflight/packet": packet, "inflight/__init__": ""}
    assert shrink(few | {"mine": text})["mine"] == wanted


@pytest.mark.parametrize(
    "first, second, message",
    [
        ("def f(): pass", "def f(): pass", "f is defined in inflight/compat and in inflight/packet"),
        ("def f(): pass", "import inflight.compat as c\ndef g(f):\n    c.f()", "inflight/packet: f is a function"),
    ],
)
def test_names_that_collide_are_reported(first, second, message):
    with pytest.raises(ValueError, match=message):
        shrink({"inflight/compat": first, "inflight/packet": second})


def test_the_example_of_the_readme():
    readme = (Path(loading.__file__).parent / "README.md").read_text()
    before, after = map(ast.parse, re.findall(r"^```python\n(.*?)^```$", readme, re.M | re.S))
    others = {"inflight/compat": "def const(x): return x", "inflight/arguments": "def check_filter(x): pass"}
    texts = {"inflight/packet": ast.unparse(before), "inflight/__init__": "", **others}
    core = ast.parse(shrink(texts, public={"packed", "topic"})["inflight/core"])
    assert ast.unparse(after) in [ast.unparse(node) for node in core.body]


_REFUSED = """
import sys
from inflight import Client, Journal, RamFlash
try:
    Client("broker.example", "d", Journal(RamFlash())).publish("t", bytes(70000), qos=1)
except ValueError as e:
    print(e, "inflight.texts" in sys.modules)
"""


def test_an_error_loads_its_text(micropython, tmp_path):
    """It is the same error where that fails."""
    text, _, loaded = micropython(_REFUSED).rpartition(" ")
    assert loaded == "False\n" and "70009 bytes do not fit the journal" in text
    shutil.copytree(micropython.lib, tmp_path, dirs_exist_ok=True)
    (tmp_path / f"{deployed_name('inflight.texts').replace('.', '/')}.mpy").unlink()
    assert micropython(_REFUSED, tmp_path) == " False\n"


def test_only_errors_load_their_texts():
    """Each is raised, or what some `_fail()` is called with: what is done without an error loads none."""
    texts = kept(shrink, TEXTS)
    found = 0
    for name in RESIDENT:
        tree = ast.parse(texts[f"inflight/{name}"])
        raised = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.Raise)
            or (isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("Error", "_fail")))
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "_text":
                assert id(node) in raised, (name, ast.unparse(node))
                found += 1
    assert found > 30


def test_every_module_of_every_board_compiles_and_finds_its_imports():
    """Each name that a module imports from another module of the project exists there."""
    for board in ("esp32", "rp2040", "unix"):
        texts = modules(board)
        trees = {place.replace("/", "."): ast.parse(text) for place, text in texts.items()}
        for module, tree in trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom):
                    origin = f"inflight.{node.module}" if node.level else node.module
                    there = {name for each in trees.get(origin, ast.Module([], [])).body for name in defined(each)}
                    missing = {alias.name for alias in node.names} - there
                    assert origin not in trees or not missing, (board, module, origin, missing)


def test_no_field_gets_the_word_of_a_method_of_its_class():
    """Also where there is no word in ROM for a private name of the application that the library has, too."""
    for board in ("esp32", "rp2040", "unix"):
        for module, text in modules(board).items():
            for one in filter(lambda node: isinstance(node, ast.ClassDef), ast.walk(ast.parse(text))):
                methods = {node.name for node in one.body if isinstance(node, ast.FunctionDef)}
                stored = (n for n in ast.walk(one) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
                fields = {node.attr for node in stored if ast.unparse(node.value) == "self"}
                assert not methods & fields, (board, module, one.name, methods & fields)


def test_what_programs_import_by_its_own_name_is_there(micropython):
    names = "compat.ticks_ms errors.OutboxFull counters.UNHANDLED packet.ProtocolError journal.erase".split()
    imports = (f"from inflight.{module} import {name}" for module, name in (one.split(".") for one in names))
    assert micropython("\n".join(imports)) == ""


@pytest.mark.parametrize(
    "heir, other, classes",
    [
        ("def g(self): return self.f()", "", ["Heir"]),
        ("def f(self): return super().f() + 1", "", ["Base", "Heir"]),
        ("def g(self): return super().f()", "", ["Base", "Heir"]),
        ("def g(self): return self.f()", "from inflight.journal.pages import Base", ["Base", "Heir"]),
    ],
)
def test_a_class_that_is_only_the_base_of_another_becomes_a_part_of_it(heir, other, classes):
    base = "class Base:\n    def f(self): return 1\n"
    texts = {"inflight/pages": base, "inflight/journal": f"from .pages import Base\nclass Heir(Base):\n    {heir}\n"}
    found = shrink(texts | {"mine": other})
    made = {}
    exec(found["inflight/journal_core"], made)
    assert [name for name in made if name[0] != "_"] == classes
    assert (made["Heir"]().g() if "g" in heir else made["Heir"]().f()) == (1 if "g" in heir else 2)


@pytest.mark.parametrize(
    "base, heir, init",
    [
        ("class Base:\n    x: int = 1", "class Heir(Base):\n    x: int = 2", ""),
        ("class Base:\n    x = 1\nclass Other: pass", "class Heir(Base, Other): pass", ""),
        ("class Base:\n    x = 1", "class Heir(Base): pass", "_EXPORTS = {'Base': 'pages'}"),
    ],
)
def test_a_base_that_can_be_told_from_its_heir_stays(base, heir, init):
    imported = "from .pages import " + ("Base, Other" if "Other" in base else "Base")
    texts = {"inflight/pages": base, "inflight/journal": f"{imported}\n{heir}", "inflight/__init__": init}
    made = {}
    exec(shrink(texts)["inflight/journal_core"], made)
    assert made["Heir"].__mro__[1] is made["Base"]
