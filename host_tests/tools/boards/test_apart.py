"""What stands in one file and is not loaded together becomes modules of its own on a board."""

import ast

import pytest

from inflight_tools.boards.build import apart
from inflight_tools.boards.build.apart import take_apart
from inflight_tools.boards.build.bundle import deployed_name, translate

_FILE = """
import struct
from errno import EIO
from .compat import const

_SIZE = const(3)
_BOTH = const(4)

class Thing:
    def get(self):
        return _BOTH

    def rare(self, n):
        n += 1
        if n > 2:
            for i in range(n):
                seldom(self, i)
        elif n:
            return other()
        return n

def seldom(thing, i):
    return _pack(thing.get() + i + _BOTH)

def other():
    return Thing()

def _pack(n):
    return struct.pack("B", n + _SIZE)
"""
CIRCLE = "def a():\n    return b()\ndef b():\n    return a()\n"
TWO = {"first": ("file", ("a",)), "second": ("file", ("b",))}
_TABLE = {"rarely": ("file", ("other", "seldom"))}


def taken_apart(text=_FILE, table=_TABLE, **more):
    """The modules that become of inflight/file, without what lend adds."""
    trees = {f"inflight/{name}": ast.parse(one) for name, one in {"file": text, **more}.items()}
    take_apart(trees, table)
    return {
        place.removeprefix("inflight/"): ast.unparse(ast.fix_missing_locations(tree)) for place, tree in trees.items()
    }


def test_the_names_of_the_table_are_a_module_with_what_only_they_use():
    assert taken_apart()["rarely"].splitlines() == [
        "import struct",
        "from .compat import const",
        "from .file import Thing, _BOTH",
        "_SIZE = const(3)",
        "",
        "def seldom(thing, i):",
        "    return _pack(thing.get() + i + _BOTH)",
        "",
        "def other():",
        "    return Thing()",
        "",
        "def _pack(n):",
        "    return struct.pack('B', n + _SIZE)",
    ]


def test_who_uses_them_imports_them_where_that_begins():
    """Not within the loop; and each branch what it uses."""
    assert taken_apart()["file"].splitlines() == [
        "from errno import EIO",  # others may import it from here
        "from .compat import const",
        "_BOTH = const(4)",
        "",
        "class Thing:",
        "",
        "    def get(self):",
        "        return _BOTH",
        "",
        "    def rare(self, n):",
        "        n += 1",
        "        if n > 2:",
        "            from .rarely import seldom",
        "            for i in range(n):",
        "                seldom(self, i)",
        "        elif n:",
        "            from .rarely import other",
        "            return other()",
        "        return n",
    ]


@pytest.mark.parametrize(
    "text, table, module, wanted",
    [
        (  # an import serves all that follows it
            "def f(x):\n    x = one(x)\n    if x:\n        two(x)\ndef one(x): pass\ndef two(x): pass\n",
            {"part": ("file", ("one", "two"))},
            "file",
            "def f(x):\n    from .part import one, two\n    x = one(x)\n    if x:\n        two(x)",
        ),
        # A module imports those before it when it is loaded, and others where it uses them.
        (CIRCLE, TWO, "first", "def a():\n    from .second import b\n    return b()"),
        (CIRCLE, TWO, "second", "from .first import a\n\ndef b():\n    return a()"),
        (  # what is always there is imported when a module is loaded
            "class Worse(Wrong):\n    pass\nclass Wrong(Exception):\n    pass\n",
            {"lengths5": ("file", ("Wrong",))},
            "file",
            "from .lengths5 import Wrong\n\nclass Worse(Wrong):\n    pass",
        ),
    ],
    ids=["one import", "where it is used", "when it is loaded", "always there"],
)
def test_where_what_stands_apart_is_imported(text, table, module, wanted):
    assert taken_apart(text, table)[module] == wanted


def test_other_modules_import_each_name_from_where_it_is():
    others = {
        "user": "def f():\n    from .file import Thing, other, seldom as rare\n    return other\n",
        "exports": "PLACES = {'Thing': 'file', 'other': 'file'}\n",
    }
    found = taken_apart(**others)
    imports = ["    from .file import Thing", "    from .rarely import other, seldom as rare"]
    assert found["user"].splitlines()[1:3] == imports
    assert found["exports"] == "PLACES = {'Thing': 'file', 'other': 'rarely'}"


_METHODS = """
class Thing:
    def get(self):
        return self.rare(1)

    def rare(self, n):
        return self._more(n)

    def _more(self, n):
        self.n = n
"""
_METHODS_TABLE = {"rarely": ("file", ("Thing.rare",))}


def test_a_method_becomes_a_function_with_the_private_ones_that_only_it_calls():
    user = "def use(things):\n    for thing in things:\n        thing.rare(2)\n"
    found = taken_apart(_METHODS, _METHODS_TABLE, user=user)
    assert found == {
        "file": "class Thing:\n\n    def get(self):\n        from .rarely import rare\n        return rare(self, 1)",
        "rarely": "def rare(self, n):\n    return _more(self, n)\n\ndef _more(self, n):\n    self.n = n",
        "user": "def use(things):\n    from .rarely import rare\n    for thing in things:\n        rare(thing, 2)",
    }


@pytest.mark.parametrize(
    "more, wanted",
    [
        ("class Other:\n    def rare(self): pass\n", "Thing.rare: no method, or another class has such a member, too"),
        ("def use(thing):\n    return thing.rare\n", "rare is handed on, not called"),
    ],
)
def test_a_method_that_is_more_than_called_can_not_be_taken_out(more, wanted):
    with pytest.raises(ValueError, match=wanted):
        taken_apart(_METHODS, _METHODS_TABLE, user=more)


def test_a_module_is_held_for_one_statement_alone(monkeypatch):
    monkeypatch.setattr(apart, "BRIEF", ("rarely",))
    found = taken_apart(_METHODS, _METHODS_TABLE, user="def use(a):\n    while a:\n        a = a.rare(2)\n")
    assert found["user"] == "def use(a):\n    while a:\n        from .rarely import rare\n        a = rare(a, 2)"


ELSE = "file: one means something else, too: name it otherwise"


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("class A(one): pass\ndef one(): pass\n", "one of part: used by what is loaded before it"),
        ("one, c = 1, 2\n", "file: one, c are one statement"),
        *(
            (text + "def one(): pass\n", ELSE)
            for text in (
                "def f(one):\n    return one\n",
                "def f():\n    def g(one):\n        return one\n    return g(one)\n",
                "def f():\n    return [one for one in (1, 2)]\n",
                "def f():\n    try:\n        g()\n    except OSError as one:\n        return one\n",
                "def f():\n    from .other import one\n    return one()\n",
                "def f():\n    global one\n    one = 1\n",
                "del one\n",
            )
        ),
    ],
)
def test_what_can_not_be_taken_apart_is_told(text, wanted):
    with pytest.raises(ValueError, match=wanted):
        taken_apart(text, {"part": ("file", ("one",))})


def test_tracebacks_name_the_file():
    line = '  File "%s", line 7, in nobody'
    assert translate(line % deployed_name("inflight.contents")) == line % "inflight.journal"
