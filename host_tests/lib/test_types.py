"""The types for editors agree with the code: __init__.pyi and the library."""

import ast
import gc
import inspect
from pathlib import Path

import pytest

import inflight
from inflight.client.base import Base
from inflight.client.handlers import Message5
from inflight.client.options import Options
from inflight.level5.mqtt5 import Session5
from inflight.level5.properties5 import Properties

CHECKOUT = Path(__file__).resolve().parents[2]
STUB = ast.parse((CHECKOUT / "lib/inflight/__init__.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}
REAL = {name: getattr(inflight, name) for name in inflight.__all__ if name != "__version__"}
REAL |= {"Message": Message5, "Properties": Properties, "_Base": Base, "_Session": Session5}


def methods(name):
    return {node.name: node for node in CLASSES[name].body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def described(arguments, first=1):
    """[(name, default)] of a function in the stub, without self: from argument `first` on."""
    names = [a.arg for a in arguments.args][first:]
    defaults = [None] * (len(names) - len(arguments.defaults)) + [ast.literal_eval(d) for d in arguments.defaults]
    return list(zip(names, defaults, strict=True))


def real(function, first=1):
    parameters = list(inspect.signature(function).parameters.values())[first:]
    plain = [p for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
    return [(p.name, None if p.default is p.empty else p.default) for p in plain]


def test_all_public_names_have_types():
    functions = {node.name for node in STUB.body if isinstance(node, ast.FunctionDef)}
    imported = {alias.asname for node in STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    numbers = {node.target.id for node in STUB.body if isinstance(node, ast.AnnAssign) and node.value is None}
    assert set(CLASSES) == set(REAL) - functions - imported - numbers
    for node in STUB.body:
        if isinstance(node, ast.FunctionDef):
            assert described(node.args, 0) == real(REAL[node.name], 0)


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_methods_and_their_arguments(name):
    for method, node in methods(name).items():
        found = inspect.getattr_static(REAL[name], method)
        if isinstance(found, property):
            assert [d.id for d in node.decorator_list] == ["property"]
        elif method != "__init__" or name in ("_Base", "Journal", "RamFlash", "FileFlash", "CardFlash", "JoinedFlash"):
            takes = Options.configure if name == "_Base" and method == "__init__" else found
            assert described(node.args) == real(takes), method
            assert isinstance(node, ast.AsyncFunctionDef) == inspect.iscoroutinefunction(found), method


@pytest.mark.parametrize("name", ["Client", "AsyncClient", "_Base"])
def test_stub_has_every_public_method(name):
    public = [n for n, value in vars(REAL[name]).items() if n[0] != "_" and callable(value)]
    assert set(public) <= methods(name).keys() | methods("_Base").keys()


@pytest.mark.parametrize("name", ["Client", "AsyncClient"])
def test_attributes_that_a_client_does_not_have(name):
    """Paho has others. A subclass may have what it wants."""
    client = REAL[name]("127.0.0.1", "dev")
    for unknown, nearest in (("on_publish", "on_complete"), ("on_mesage", "on_message"), ("onmessage", "on_message")):
        with pytest.raises(AttributeError, match=f"^{name} has no attribute {unknown}: is it {nearest}"):
            setattr(client, unknown, print)
    for known in ("on_message", "on_connect", "on_disconnect", "on_complete", "on_error", "online"):
        setattr(client, known, print)
    type("Own", (REAL[name],), {})("127.0.0.1", "dev").readings = []


def test_attributes_of_the_journal():
    journal = inflight.Journal(inflight.RamFlash())
    for node in CLASSES["Journal"].body:
        if isinstance(node, ast.AnnAssign):
            assert isinstance(getattr(journal, node.target.id), int), node.target.id


def test_a_name_costs_a_program_on_cpython_no_collection(monkeypatch):
    """There a collection goes through all that the program has: half a second for a large one, at each name."""
    collected = []
    monkeypatch.setattr(gc, "collect", lambda *generation: collected.append(generation))
    assert inflight.Client and inflight.Journal
    assert collected == []


def test_star_import_has_the_public_names():
    namespace = {}
    exec("from inflight import *", namespace)
    assert {name for name in namespace if not name.startswith("__")} == set(inflight.__all__)
