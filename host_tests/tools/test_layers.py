"""Who imports whom: in tools/ only downwards, as tools/README.md has it; of device code the firmware imports boards and
library, boards import the library, and that imports neither. Nowhere in a circle."""

import ast
import functools
import graphlib
import re
import symtable

import pytest

from tools.setup.common import CHECKOUT

TOOLS = CHECKOUT / "tools"
ROW = re.compile(r"^\| (.*?) \|", re.MULTILINE)
NAME = re.compile(r"\]\((\w+)\)|`(\w+)\.py`")
# Modules of this folder are imported by flat names.
FLAT = CHECKOUT / "host_tests/device"
# Of device code, from the lowest floor up.
DEVICE = ("lib", "boards", "firmware")


def module_of(path):
    """How the module in the file `path` is imported."""
    parts = path.relative_to(CHECKOUT).with_suffix("").parts
    parts = parts[1:] if parts[1] == "inflight_tools" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def names_in(path, module):
    """What the module imports, also inside functions: "a.b" of `import a.b`, "a.b.c" of `from a.b import c`, "a"
    of `__import__("a")` and `_unloaded("a")`."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: -(node.level - 1) or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found += [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("__import__", "_unloaded"):
            found += [word.value for word in node.args[:1] if isinstance(word, ast.Constant)]
    return found


def known(name, modules):
    """The module of `modules` that the import of `name` runs last, None if it is another one's."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


@functools.cache
def defined_in(path):
    """The names that the module binds outside of functions."""
    names = symtable.symtable(path.read_text(), str(path), "exec").get_symbols()
    return {one.get_name() for one in names if one.is_assigned() or one.is_imported()}


def imports():
    """{module of tools/: the modules of tools/ that it imports}."""
    modules = {module_of(path): path for path in TOOLS.rglob("*.py")}
    found = {name: {known(used, modules) for used in names_in(path, name)} for name, path in modules.items()}
    return {name: used - {None, name} for name, used in found.items()}


def device_imports(*parts):
    """{(folder of DEVICE, module): those that it imports} of device code. Boards have modules of the same names, each
    of which stands for all."""
    files = {}
    for part in parts:
        for path in (CHECKOUT / part).rglob("*.py"):
            inside = path.relative_to(CHECKOUT / part).with_suffix("").parts
            name = ".".join(inside).removesuffix(".__init__") if part == "lib" else path.stem
            files.setdefault((part, name), []).append(path)
    places = {name: (part, name) for part, name in files}
    found = {}
    for place, paths in files.items():
        names = {known(name, places) for path in paths for name in names_in(path, place[1])}
        found[place] = {places[name] for name in names - {None, place[1]}}
    return found


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


def in_order(graph):
    """The modules, each behind those that it imports."""
    try:
        return list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        pytest.fail(" <- ".join(map(str, error.args[1])))


def test_no_module_imports_itself_by_way_of_others():
    order = in_order(imports())
    assert "inflight_tools.cli" in order and len(order) > 250


def test_no_module_of_a_device_imports_itself_by_way_of_others():
    order = in_order(device_imports(*DEVICE))
    assert ("firmware", "commands") in order and ("boards", "radio") in order and len(order) > 130


def test_device_code_imports_only_downwards():
    for (part, name), used in device_imports(*DEVICE).items():
        for folder, other in used:
            assert DEVICE.index(folder) <= DEVICE.index(part), f"{part}/{name} imports {other}"


def test_folders_import_only_what_stands_above_them():
    floor = floors()
    for module, all_used in imports().items():
        for used in all_used:
            assert floor[folder_of(used)] <= floor[folder_of(module)], f"{module} imports {used}"


def test_what_is_imported_exists():
    """Also for long tests, which nobody may run for weeks."""
    modules = {module_of(path): path for folder in (TOOLS, CHECKOUT / "host_tests") for path in folder.rglob("*.py")}

    def exists(name):
        where, _, last = name.rpartition(".")
        found = modules.get(where)
        return name in modules or (last in defined_in(found) if found else not known(where, modules))

    names = [(module, name) for module, path in modules.items() for name in names_in(path, module)]
    assert [(module, name) for module, name in names if not exists(name)] == []


def test_no_tool_imports_a_test():
    tests = {"host_tests", *(path.stem for path in FLAT.rglob("*.py"))}
    for path in TOOLS.rglob("*.py"):
        for name in {name.split(".")[0] for name in names_in(path, module_of(path))}:
            assert name not in tests or path.with_name(f"{name}.py").exists(), f"{path} imports {name}"
