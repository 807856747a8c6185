"""Who imports whom in tools/: only downwards, as tools/README.md has it, and never in a circle."""

import ast
import graphlib
import re

import pytest

from tools.setup.common import CHECKOUT

TOOLS = CHECKOUT / "tools"
ROW = re.compile(r"^\| (.*?) \|", re.MULTILINE)
NAME = re.compile(r"\]\((\w+)\)|`(\w+)\.py`")
# Modules of this folder are imported by flat names.
FLAT = CHECKOUT / "host_tests/device"


def module_of(path):
    """How the module in the file `path` is imported."""
    parts = path.relative_to(CHECKOUT).with_suffix("").parts
    parts = parts[1:] if parts[1] == "inflight_tools" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def names_in(path, module):
    """Yields what the module imports, also inside functions: "a.b" of `import a.b`, "a.b.c" of `from a.b import c`."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: -(node.level - 1) or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def known(name, modules):
    """The module of `modules` that the import of `name` runs last, None if it is another one's."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def imports():
    """{module of tools/: the modules of tools/ that it imports}."""
    modules = {module_of(path): path for path in TOOLS.rglob("*.py")}
    found = {name: {known(used, modules) for used in names_in(path, name)} for name, path in modules.items()}
    return {name: used - {None, name} for name, used in found.items()}


def floors():
    """{folder or module directly below tools/: its floor}, from the table of tools/README.md: each in a row has its
    own."""
    rows = ROW.findall((TOOLS / "README.md").read_text())
    names = ["".join(name) for row in rows for name in NAME.findall(row)]
    assert len(set(names)) == len(names)
    return {name: floor for floor, name in enumerate(names)}


def folder_of(module):
    first, *rest = module.split(".")
    return first if first != "tools" else rest[0]


def test_the_table_names_everything():
    below = {path.stem for path in TOOLS.iterdir() if path.suffix == ".py" or (path.is_dir() and any(path.iterdir()))}
    assert floors().keys() == below - {"__init__", "__pycache__"}


def test_no_module_imports_itself_by_way_of_others():
    try:
        order = list(graphlib.TopologicalSorter(imports()).static_order())
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
    assert "inflight_tools.cli" in order and len(order) > 250


def test_folders_import_only_what_stands_above_them():
    floor = floors()
    wrong = [
        f"{module} imports {used}"
        for module, all_used in imports().items()
        for used in all_used
        if floor[folder_of(used)] > floor[folder_of(module)]
    ]
    assert wrong == [], "\n".join(wrong)


def test_no_tool_imports_a_test():
    flat = {path.stem for path in FLAT.rglob("*.py")}
    wrong = [
        f"{path.relative_to(CHECKOUT)} imports {name}"
        for path in TOOLS.rglob("*.py")
        for name in names_in(path, module_of(path))
        if name.split(".")[0] in {"host_tests"} | flat and not path.with_name(f"{name.split('.')[0]}.py").exists()
    ]
    assert wrong == [], "\n".join(wrong)
