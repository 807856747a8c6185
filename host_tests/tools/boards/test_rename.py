"""Internal names of the library are replaced by words that MicroPython has already: which ones, and the reverse."""

import ast
import functools
import re
import subprocess
import sys

import pytest

from host_tests.absent import interpreter
from host_tests.tools.command import inflight
from inflight_tools.boards.build.bundle import compile_all, library, modules, shrunk, sources, translate
from inflight_tools.boards.build.rename import _ROM, mentioned, names_in, own_names, rename

WORKER = "shrunk"


@functools.cache
def deployed(board=None):
    """The modules of a board, or of the library alone, as they are deployed: {path: text}."""
    return modules(board) if board else shrunk(library())


def attributes(text):
    return {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}


def test_public_names_stay_and_internal_ones_are_replaced_everywhere():
    texts = {place: file.read_text() for place, file in library().items()}
    found = set().union(*map(mentioned, deployed().values()))
    public = {"publish", "subscribe", "max_inflight", "on_complete", "readblocks", "counters", "damaged"}
    assert public <= mentioned(library()["inflight/__init__"].with_suffix(".pyi").read_text()) & found
    internal = {"_connect_steps", "next_row", "make_space", "free_mid", "retransmit"}
    assert internal < set().union(*map(mentioned, texts.values())) and not internal & found


def attributes_in(text):
    """The attributes of a module of the library that says `text`, as they are renamed."""
    trees = {"inflight/mine": ast.parse(text)}
    rename(trees, set())
    return re.findall(r"\.(\w+)", ast.unparse(trees["inflight/mine"]))


def test_a_word_that_is_a_name_already_is_given_to_nothing():
    (word,) = attributes_in("def f(x):\n    x.internal = 1")
    new, old = attributes_in(f"def f(x):\n    x.internal = x.{word}")
    assert word != "internal" and old == word != new


FIELDS = "class A:\n def __init__(self):\n  self.one = 1\nclass B{}:\n def __init__(self):\n  self.other = 1\n{}"
METHODS = "class A:\n def one(self): pass\nclass B:\n def other(self): pass\nA().one(), B().other()"


@pytest.mark.parametrize(
    "text, used, shared",
    [
        (FIELDS.format("", ""), (), True),
        (FIELDS.format("(A)", ""), (), False),
        (FIELDS.format("", "class C(A, B): pass"), (), False),
        (FIELDS.format("", "def f(x):\n x.other = 1"), (), False),
        (FIELDS.format("", "def f(other):\n return other"), (), False),
        (FIELDS.format("", ""), ("other",), False),
        (METHODS, (), False),  # a traceback could not be translated back
    ],
)
def test_two_names_have_one_word_if_no_object_has_both(text, used, shared):
    words = rename({"inflight/mine": ast.parse(text)}, set(), used)["inflight/mine"]
    assert (words["one"] == words["other"]) == shared


OWN = """
import elsewhere
from inflight.compat import taken
class Mine:
    def f(self, given):
        self.own = given.theirs
        return self.own
class Heir(elsewhere.Base):
    def g(self):
        self.inherited = f(keyword=getattr(self, "string"))
"""


def test_names_that_the_application_uses_for_its_own_objects_alone():
    assert own_names([OWN]) == {"Mine", "Heir", "f", "g", "given", "self", "own"}


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """Modules that are compiled with the library: {place: file}."""
    folder = tmp_path_factory.mktemp("beside")
    texts = {
        "mine": "def f(session):\n    return session.next_row.rows\n",
        "package/mine": "from .other import open_socket\nfrom inflight.net.transport import addresses, prepare\n",
        "package/other": "def open_socket():\n    pass\n",
    }
    files = {place: folder / f"{place.replace('/', '_')}.py" for place in texts}
    for place, file in files.items():
        file.write_text(texts[place])
    return files


def test_modules_compiled_with_the_library_get_the_same_words(beside):
    """They keep names of their own, also where these are names of library functions."""
    found = shrunk(library() | beside)
    (first, second) = re.search(r"return session\.(\w+)\.(\w+)", found["mine"]).groups()
    assert first != "next_row" and {first, second} < attributes(found["inflight/core"])
    assert shrunk(library() | beside, {"next_row"})["mine"].count("next_row") == 1
    assert found["package/mine"].startswith("from .other import open_socket as open_socket\n")
    assert found["package/mine"].endswith(" as prepare\n")
    assert found["package/other"] == beside["package/other"].read_text()


@pytest.mark.parametrize("board", ["esp32", "rp2040", "unix"])
def test_every_name_has_its_definition(board, tmp_path):
    """In each module as it is deployed: no name is undefined, or assigned in vain."""
    for place, text in deployed(board).items():
        file = tmp_path / f"{place}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text.replace("del __module__, __qualname__", "pass"))  # a class begins with them
    # F401: a module hands on names of others. F811: several modules that are merged import the same.
    rules = ("--select", "F", "--ignore", "F401,F811", "--config", "builtins = ['ptr8', 'ptr16']")
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", *rules, tmp_path]
    done = subprocess.run(ruff, capture_output=True, text=True)
    assert not done.returncode, done.stdout


def test_micropython_has_all_words():
    found = interpreter("micropython-x86")
    uses = "\n".join(f"x.{word}" for word in _ROM)
    code = f"import micropython\ndef f(x):\n  pass\nexec({f'def f(x):{chr(10)}  ' + uses.replace(chr(10), '; ')!r})\n"
    command = [*found.command(), "-c", code + "micropython.qstr_info(1)"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    new = set(re.findall(r"Q\((\w+)\)", done.stdout))
    assert "qstr_info" not in new and not new & set(_ROM)


def test_a_traceback_is_translated_back():
    lines = [line for line in deployed()["inflight/core"].splitlines() if line.strip().startswith("def ")]
    line = next(line for line in lines if translate(_frame(line)) == _frame("def _select("))
    assert "_select" not in line
    assert translate("no frame in " + line) == "no frame in " + line
    shown = inflight("board", "traceback", stdin=f"Traceback:\n{_frame(line)}\nOSError: 5\x1b[2J\n").stdout
    assert shown == f"Traceback:\n{_frame('def _select(')}\nOSError: 5\\x1b[2J\n"


def _frame(line, module="inflight.core"):
    return f'  File "{module}", line 1, in ' + line.split("def ")[1].split("(")[0]


@pytest.mark.parametrize("board", ["esp32", "rp2040", "unix"])
def test_private_names_of_the_application_are_words_on_each_board(board):
    """The same ones, and those of the library alone, so that a traceback is translated without knowing of which board
    it is."""
    assert deployed().items() <= deployed(board).items()
    texts = {place: text for place, text in deployed(board).items() if "/" not in place}
    source = sources(board)
    texts_of = [source[place].read_text() for place in ("node", "app", "board", "power") if place in source]
    private = {name for text in texts_of for name in re.findall(r"^ *def (_[a-z]\w+)\(", text, re.M)}
    assert "_publish_telemetry" in private
    assert not private & set().union(*map(names_in, texts.values()))
    functions = re.findall(r"^    def \w+\(", texts["node"], re.M)
    translated = [translate(_frame(function, "node")) for function in functions]
    assert _frame("def _publish_telemetry(", "node") in translated
    assert _frame("def uptime(", "node") in translated


def test_no_module_loads_the_one_with_the_codes():
    assert not [place for place, text in deployed("rp2040").items() if re.search(r"(from|import) codes", text)]
    assert "== 'online'" in deployed("rp2040")["app"]


def test_tracebacks_name_the_module():
    """The name of a file would be one more string in the heap for each module that is loaded."""
    compiled = compile_all(library())
    for place, names in {"inflight/core": b"inflight.core", "inflight/__init__": b"inflight"}.items():
        assert names in compiled[place]
    assert not [place for place, code in compiled.items() if f"{place.rpartition('/')[2]}.py".encode() in code]
