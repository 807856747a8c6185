"""Which module of the library knows which: its folders are layers."""

import ast
from graphlib import CycleError, TopologicalSorter

import pytest

from inflight_tools.boards.build.bundle import library

# From the lowest layer on; the first one is the package itself.
LAYERS = ["", "journal", "flash", "net", "session", "level5", "client"]
MOST_MODULES, MOST_LINES = 12, 650  # of a folder, of a module
# All that changes the state of these stands in one class.
OWNERS = {"journal.journal": 1_659, "session.session": 1_862, "level5.mqtt5": 880}
OBJECTS = {"session": "session", "d": "session", "journal": "journal", "j": "journal", "client": "client"}
# These may only fall: fields that are assigned from outside of their class, uses of a private name of another object,
# functions whose first argument is the object that they work on.
OUTSIDE, PRIVATE, FREE = 54, 229, 19


def imported(name, text):
    """The modules of the library that the module `name` ("session.record") imports, at its top or in its functions."""
    folder = name.rpartition(".")[0]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node.module if node.level > 1 or not folder else f"{folder}.{node.module}"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("inflight."):
            yield node.module.removeprefix("inflight.")
        elif isinstance(node, ast.Import):
            yield from (alias.name[9:] for alias in node.names if alias.name.startswith("inflight."))


def sources():
    found = {}
    for place, file in library().items():
        parts = file.parts[len(file.parts) - file.parts[::-1].index("inflight") :]
        if place != "inflight/__init__":  # it names modules, and loads none of them
            found[".".join(parts).removesuffix(".py")] = file.read_text()
    return found


def check(texts):
    """Raises CycleError with a circle of imports, if there is one; ValueError if a module imports one of a layer above
    its own."""
    graph = {name: {*imported(name, text)} for name, text in texts.items()}
    TopologicalSorter(graph).prepare()
    for name, others in graph.items():
        above = [other for other in others if _layer(other) > _layer(name)]
        if above:
            raise ValueError(f"{name} imports {', '.join(above)} of a layer above its own")


def _layer(name):
    return LAYERS.index(name.rpartition(".")[0])


def test_folders_are_layers():
    """Not from a function either: whoever reads a module needs to know only those below it."""
    check(sources())


def test_folders_are_small():
    folders = [name.rpartition(".")[0] for name in sources()]
    assert {folder: folders.count(folder) for folder in LAYERS if folders.count(folder) > MOST_MODULES} == {}


def test_modules_are_small():
    lines = {name: text.count("\n") for name, text in sources().items()}
    assert {name: n for name, n in lines.items() if n > OWNERS.get(name, MOST_LINES)} == {}


def _name(node):
    return getattr(node, "id", None) or getattr(node, "attr", "")


def test_objects_are_left_alone():
    outside, private, free = set(), 0, 0
    for tree in map(ast.parse, sources().values()):
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                kind = OBJECTS.get(_name(node.value).lstrip("_"))
                if kind and isinstance(node.ctx, ast.Store):
                    outside.add((kind, node.attr))
                own = _name(node.value) in ("self", "cls") or isinstance(node.value, ast.Call)
                private += node.attr[:1] == "_" != node.attr[1:2] and not own
        functions = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        free += sum(node.args.args[0].arg in (*OBJECTS, "reader") for node in functions if node.args.args)
    assert (len(outside) <= OUTSIDE, private <= PRIVATE, free <= FREE) == (True, True, True), (
        len(outside),
        private,
        free,
    )


def test_a_circle_is_found():
    with pytest.raises(CycleError) as found:
        check({"a": "from .b import x", "b": "def f():\n    from .c import x", "c": "import inflight.a as a"})
    assert {*found.value.args[1]} == {"a", "b", "c"}


@pytest.mark.parametrize(
    "line", ["from ..client.aio import x", "import inflight.client.aio", "from inflight.client.aio import x"]
)
def test_an_import_upwards_is_found(line):
    with pytest.raises(ValueError, match="session.row imports client.aio"):
        check({"session.row": f"def f():\n    {line}", "client.aio": ""})
