"""What is compiled for boards is smaller than what stands in the checkout, and does the same."""

import ast
import subprocess

import pytest

from dev import device_run
from dev.runtimes import runtime
from dev.setup.common import CHECKOUT
from inflight_tools.boards.bundle import library, sources
from inflight_tools.boards.shrink import CORE, shrink

DEVICE = CHECKOUT / "host_tests" / "device"


def library_with(**texts):
    found = {place: file.read_text() for place, file in library().items()}
    return shrink(found | texts)


def test_rooms_that_are_always_loaded_together_become_one_module():
    found = library_with()
    assert set(found) == {*library(), "inflight/core"}
    assert max(len(found[f"inflight/{room}"]) for room in CORE) < 600
    assert "class Session" in found["inflight/core"] and "class Journal" in found["inflight/core"]


def test_constants_become_numbers_in_other_modules_too():
    text = "from inflight.journal import DONE, OUT\nimport inflight.packet as packet\nx = (OUT, DONE, packet.PUBLISH)\n"
    assert library_with(mine=text)["mine"] == "import inflight.core as packet\nx = (3, 2, 3)\n"


def test_docstrings_and_what_is_for_cpython_go():
    found = library_with(mine='def f():\n    """Tells."""\n')
    assert found["mine"] == "def f():\n    pass\n"
    assert "cpython" not in found["inflight/core"]


@pytest.mark.parametrize(
    "first, second, says",
    [
        ("def f(): pass", "def f(): pass", "f is defined in inflight/compat and in inflight/packet"),
        (
            "def f(): pass",
            "import inflight.compat as compat\ndef g(f):\n    compat.f()",
            "inflight/packet: f is a function",
        ),
    ],
)
def test_names_that_would_meet_are_told(first, second, says):
    with pytest.raises(ValueError, match=says):
        shrink({"inflight/compat": first, "inflight/packet": second})


def _runtime():
    found = runtime("micropython-x64")
    if found.reason:
        pytest.skip(found.reason)
    return found


# All device tests of the library but those that take minutes and know nothing that these do not.
DEPLOYED = (
    *("test_packet", "test_topic", "test_flash", "test_pinned", "test_journal", "test_journal_alloc", "test_corpus"),
    *("test_outbound", "test_inbound", "test_foreign", "test_keep_alive", "test_session_record", "test_session"),
)


# What the tests import that may know the library's internal names.
_FLAT = ("host_tests/device", "host_tests/fuzz/targets", "firmware", "boards/common", "boards/unix")
BESIDE = {file.stem: file for folder in _FLAT for file in (CHECKOUT / folder).glob("*.py")}
BESIDE |= {f"dev/reference/{file.stem}": file for file in (CHECKOUT / "dev/reference").glob("*.py")}


@pytest.fixture(scope="module")
def deployed():
    with device_run.compiled(beside=BESIDE) as lib:
        yield lib


@pytest.mark.parametrize("name", DEPLOYED)
@pytest.mark.timeout(600)
def test_device_tests_pass_with_the_library_as_it_is_deployed(deployed, name):
    process = device_run.start(_runtime(), DEVICE / f"{name}.py", lib=deployed, stdout=subprocess.PIPE, text=True)
    output, status = device_run.wait(process, 300)
    assert status == 0, output
    assert "ok test_" in output


def test_every_module_of_every_board_compiles_and_finds_its_imports():
    """By name: what a module takes from another one of ours has to be there."""
    for board in ("esp32", "rp2040", "unix"):
        texts = shrink({place: file.read_text() for place, file in sources(board).items()})
        trees = {place.replace("/", "."): ast.parse(text) for place, text in texts.items()}
        for module, tree in trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom):
                    origin = f"inflight.{node.module}" if node.level else node.module
                    there = {name for each in trees.get(origin, ast.Module([], [])).body for name in _binds(each)}
                    missing = {alias.name for alias in node.names} - there
                    assert origin not in trees or not missing, (board, module, origin, missing)


def _binds(node):
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [alias.asname or alias.name for alias in node.names]
    return [name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]


@pytest.mark.parametrize("room", CORE)
def test_each_room_is_still_there_by_its_own_name(room):
    public = "import inflight.%s as room\nprint(sorted(n for n in dir(room) if n[0] != '_'))" % room
    with device_run.compiled() as lib:
        done = subprocess.run(
            [*_runtime().command(), "-c", public], env={"MICROPYPATH": f".frozen:{lib}"}, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr
    namespace = {
        "compat": "ticks_ms",
        "counters": "UNHANDLED",
        "packet": "Decoder",
        "topic": "encode_name",
        "pages": "Pages",
        "records": "Records",
        "journal": "erase",
    }
    namespace |= {
        "in_flight": "InFlight",
        "outbound": "Outbound",
        "inbound": "Inbound",
        "session": "Session",
        "base": "Base",
        "transport": "open_socket",
    }
    namespace |= {"keep_alive": "KeepAlive", "send_buffer": "SendBuffer"}
    namespace |= {"session_record": "SessionRecord"}
    assert repr(namespace[room]) in done.stdout
