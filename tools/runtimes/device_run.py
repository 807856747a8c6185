"""Runs one device test file on one runtime:
`python -m tools.runtimes.device_run --runtime micropython-x86 FILE [-k name]`.

Prints `ok name`, `FAIL name` with its traceback, or `skip name: reason`. Exit status: 0 all well, 1 a test failed, 2 no
such file or test, 3 the runtime is unavailable here, 124 out of time."""

import argparse
import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from inflight_tools.boards.build.bundle import FIRMWARE, compile_mpy, compile_texts, library, modules, shrunk, sources
from inflight_tools.boards.build.loading import PACKAGE
from inflight_tools.cache import write_below
from inflight_tools.sources import search_path
from tools.runtimes import DEVICE_NAMES, runtime
from tools.setup.common import CHECKOUT, atomic_folder, digest, exclusive

# Folders of what a device test may import by a flat name: of tests and their models, of a board, of the firmware.
_FLAT = [
    *(str(folder.relative_to(CHECKOUT)) for folder in search_path(CHECKOUT / "host_tests/device")),
    *("tools/fuzz/targets", "tools/reference/flash", "boards/unix", "boards/common"),
    *(str(folder.relative_to(CHECKOUT)) for folder in search_path(CHECKOUT / "firmware")),
]
TIMEOUT_S = 900  # a test file asks for another with a line `TIMEOUT_S = 2`
_NAMED = "micropython-own"
# Here, and where byte loops are machine code, the tests of the library take it as it is deployed.
_DEPLOYED = "micropython-x64"
_BUILD = CHECKOUT / "build/mpy"
# Modules that a test imports; they may use internal names of the library. {name: file}.
_BESIDE = {file.stem: file for folder in _FLAT for file in sorted((CHECKOUT / folder).glob("*.py"))}
_BESIDE |= {f"tools/reference/{file.stem}": file for file in sorted((CHECKOUT / "tools/reference").glob("*.py"))}
_TOOLS = sorted(CHECKOUT.glob("tools/inflight_tools/boards/build/*.[pt]*"))  # code and words, no text for readers
_PORTS = {file.stem for folder in ("boards", "firmware") for file in (CHECKOUT / folder).rglob("*.py")}
_PORTS |= {"ports", "ports_esp32", "ports_rp2040", "hardware"}


def test_names(file):
    return re.findall(r"^def (test_\w+)", file.read_text(), re.M)


def timeout_of(file):
    """Seconds that the file may take on any runtime."""
    asked = re.search(r"^TIMEOUT_S = (\d+)", file.read_text(), re.M)
    return int(asked.group(1)) if asked else TIMEOUT_S


def environment(found, file, lib=None):
    """How the Runtime `found` runs `file`: both families of interpreters get the same search path: the library, the
    tests, a board, the firmware. lib: another library than the checkout's.

    MicroPython loads .mpy files: tests import modules again and again, and compiling would take most of the time. One
    that a person names may not load these, and compiles the sources."""
    root = precompiled(found.processor) if found.micropython and found.name != _NAMED else CHECKOUT
    folders = [lib or root / "lib", *(root / name for name in _FLAT), root, file.parent]  # root: for tools.reference
    path = ":".join(dict.fromkeys(map(str, folders)))
    python = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **python, "MICROPYPATH": ".frozen:" + path}


def _compiled(beside, processor=""):
    texts = shrunk(library() | beside)
    ours = {place: text for place, text in texts.items() if place.startswith(PACKAGE)}
    files = {f"{place}.mpy": code for place, code in compile_texts(ours, processor).items()}
    # The others as sources: with their assertions, which -O3 leaves out.
    return files | {f"{place}.py": text.encode() for place, text in texts.items() if place not in ours}


@contextlib.contextmanager
def compiled():
    """A temporary copy of the library as it is deployed: .mpy files made with -O3."""
    with tempfile.TemporaryDirectory(prefix="inflight-mpy-") as folder:
        write_below(Path(folder), _compiled({}))
        yield Path(folder)


@functools.cache
def deployed(processor=""):
    """A folder with the library as it is deployed, and with the modules of device tests, which use its names.
    processor: with machine code for it."""
    files = [*library().values(), *_BESIDE.values()]
    return _built(f"deployed-{processor or 'bytecode'}", files, lambda: _compiled(_BESIDE, processor))


@functools.cache
def precompiled(processor=""):
    """A folder like the checkout with the modules of device tests as .mpy files, which have assertions and line
    numbers; with machine code for `processor`, if there is one."""
    places = ("lib/inflight", "boards", "firmware", "tools/reference", "tools/fuzz/targets", "host_tests/device")
    files = [file for place in places for file in sorted((CHECKOUT / place).rglob("*.py"))]

    def compile_each():
        paths = {file.relative_to(CHECKOUT).with_suffix(".mpy"): file for file in files}
        return {path: compile_mpy(file.read_text(), file.name, "-O0", processor) for path, file in paths.items()}

    return _built(f"precompiled-{processor or 'bytecode'}", files, compile_each)


@functools.cache
def application():
    """A folder with the application for the board unix as it is deployed: `-m main` starts it."""
    found = sources("unix")

    def compile_each():
        return {f"{place}.mpy": code for place, code in compile_texts(modules("unix")).items()}

    return _built("application", found.values(), compile_each)


def application_environment(found):
    """How the Runtime `found` runs `-m main`: MicroPython the application as it is deployed, CPython its sources."""
    if found.micropython:
        return {**os.environ, "MICROPYPATH": str(application())}
    return environment(found, FIRMWARE / "main.py")


def _built(name, sources, make):
    """The folder `name` with the files that make() returns. They are made once, until a source changes, or what makes
    them."""
    folder = _BUILD / name / digest(*sources, *_TOOLS)
    with exclusive(folder.parent):
        if not folder.exists():
            for old in folder.parent.glob("[0-9a-f]*"):
                shutil.rmtree(old)
            with atomic_folder(folder) as new:
                write_below(new, make())
    return folder


def start(found, file, only=None, **popen):
    """Start the tests of `file` on the Runtime `found`, in a process group of their own."""
    as_deployed = (found.processor or found.name == _DEPLOYED) and _is_of_the_library(file)
    lib = deployed(found.processor) if as_deployed else None
    # The current folder comes last, not first: what is compiled into `lib` goes before the checkout.
    code = f"import sys; sys.path.append(sys.path.pop(0)); import harness; harness.main({file.stem!r}, {only!r})"
    command = [*found.command(), "-c", code]
    return subprocess.Popen(command, cwd=CHECKOUT, env=environment(found, file, lib), start_new_session=True, **popen)


def _is_of_the_library(file):
    """A test that imports nothing of a board or of the firmware."""
    imported = re.findall(r"^ *(?:import|from) (\w+)", file.read_text(), re.M)
    return _BESIDE.get(file.stem) == file and not _PORTS.intersection(imported)


def wait(process, seconds):
    """(output or None, exit status) of the process; 124 and everything it started killed when the time is up."""
    try:
        output = process.communicate(timeout=seconds)[0]
        return output, process.returncode
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], 124


def main():
    parser = argparse.ArgumentParser(description="run one device test file on one runtime")
    parser.add_argument("file", type=Path)
    parser.add_argument("--runtime", choices=DEVICE_NAMES, default="cpython")
    parser.add_argument("-k", metavar="TEXT", default="", help="only tests with TEXT in their name")
    options = parser.parse_args()
    found = runtime(options.runtime)
    if found.reason:
        print(f"{found.name} is unavailable: {found.reason}", file=sys.stderr)
        return 3
    file = options.file.resolve()
    only = [name for name in test_names(file) if options.k in name] if file.is_file() else []
    if not only:
        print(f"no test in {options.file} matches {options.k!r}", file=sys.stderr)
        return 2
    process = start(found, file, only if options.k else None)
    status = wait(process, timeout_of(file))[1]
    if status == 124:
        print(f"out of time: {timeout_of(file)} s", file=sys.stderr)
    return status if status in (0, 124) else 1


if __name__ == "__main__":
    sys.exit(main())
