"""Runs one device test file on one runtime: `python -m dev.device_run --runtime micropython-x86 FILE [-k name]`.

Prints `ok name`, `FAIL name` with its traceback, or `skip name: reason`. Exit status: 0 all well, 1 a test failed,
2 no such file or test, 3 the runtime is unavailable here, 124 out of time.
"""

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

from dev.runtimes import DEVICE_NAMES, runtime
from dev.setup.common import CHECKOUT, atomic_folder, digest, exclusive
from inflight_tools.boards.bundle import LIB, compile_mpy, compile_texts, library, shrunk
from inflight_tools.boards.rename import PACKAGE
from inflight_tools.cache import write_below

# What a device test may import by a flat name, and the checkout for dev.reference.
BESIDE_LIB = ("host_tests/device", "host_tests/fuzz/targets", "boards/unix", "boards/common", "firmware", ".")
TIMEOUT_S = 120  # a test file asks for another with a line `TIMEOUT_S = 300`
# Slow interpreters load .mpy files: many tests import modules again and again, and compiling takes most of the time.
# The others compile the sources.
_PRECOMPILED = ("micropython-armhf", "micropython-wasm")
_BUILD = CHECKOUT / "build/mpy"


def test_names(file):
    return re.findall(r"^def (test_\w+)", file.read_text(), re.M)


def timeout_of(file):
    """Seconds that the file may take on any runtime."""
    asked = re.search(r"^TIMEOUT_S = (\d+)", file.read_text(), re.M)
    return int(asked.group(1)) if asked else TIMEOUT_S


def environment(lib, file, root=CHECKOUT):
    """Both families of interpreters get the same search path: the library, the tests, a board, the firmware. root: the
    checkout, or a folder with its modules as .mpy files."""
    folders = [root / "lib" if lib == LIB else lib, *(root / name for name in BESIDE_LIB), file.parent]
    path = ":".join(dict.fromkeys(map(str, folders)))
    python = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **python, "MICROPYPATH": ".frozen:" + path}


@functools.cache  # tests ask for the same one again and again
def _compiled(lib, beside):
    texts = shrunk(library(lib) | dict(beside))
    ours = {place: text for place, text in texts.items() if place.startswith(PACKAGE)}
    files = {f"{place}.mpy": code for place, code in compile_texts(ours).items()}
    # The others as sources: with their assertions, which -O3 leaves out.
    return files | {f"{place}.py": text.encode() for place, text in texts.items() if place not in ours}


@contextlib.contextmanager
def compiled(lib=LIB, beside=None):
    """A temporary copy of the library as it is deployed: .mpy files made with -O3; and of modules `beside` it,
    {name: file}, which use its internal names."""
    files = _compiled(lib, tuple((beside or {}).items()))
    with tempfile.TemporaryDirectory(prefix="inflight-mpy-") as folder:
        write_below(Path(folder), files)
        yield Path(folder)


@functools.cache
def precompiled():
    """A folder like the checkout with the modules of device tests as .mpy files, which have assertions and line
    numbers. They are compiled once, until a source changes."""
    places = ("lib/inflight", "boards/*", "firmware", "dev/reference", "host_tests/device", "host_tests/fuzz/targets")
    files = [file for place in places for file in sorted(CHECKOUT.glob(f"{place}/*.py"))]
    folder = _BUILD / digest(*files)
    with exclusive(_BUILD):
        if not folder.exists():
            for old in _BUILD.glob("[0-9a-f]*"):
                shutil.rmtree(old)
            with atomic_folder(folder) as new:
                paths = {file.relative_to(CHECKOUT).with_suffix(".mpy"): file for file in files}
                compiled = {path: compile_mpy(file.read_text(), file.name, "-O0") for path, file in paths.items()}
                write_below(new, compiled)
    return folder


def start(found, file, only=None, heap=None, lib=LIB, **popen):
    """Start the tests of `file` on the Runtime `found`, in a process group of their own."""
    # The current folder comes last, not first: what is compiled into `lib` goes before the checkout.
    code = f"import sys; sys.path.append(sys.path.pop(0)); import harness; harness.main({file.stem!r}, {only!r})"
    command = [*found.command(heap), "-c", code]
    variables = environment(lib, file, precompiled() if found.name in _PRECOMPILED else CHECKOUT)
    return subprocess.Popen(command, cwd=CHECKOUT, env=variables, start_new_session=True, **popen)


def wait(process, seconds):
    """(output or None, exit status) of the process; 124 and everything it started killed when the time is up."""
    try:
        output = process.communicate(timeout=seconds)[0]
        return output, process.returncode
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], 124


def arguments(argv):
    parser = argparse.ArgumentParser(description="run one device test file on one runtime")
    parser.add_argument("file", type=Path)
    parser.add_argument("--runtime", choices=DEVICE_NAMES, default="cpython")
    parser.add_argument("-k", metavar="TEXT", default="", help="only tests with TEXT in their name")
    parser.add_argument("--heap", metavar="SIZE", help="MicroPython's heap, e.g. 200k")
    parser.add_argument("--mpy", action="store_true", help="compile the library with mpy-cross -O3, as deployed")
    return parser.parse_args(argv)


def main(argv=None):
    options = arguments(argv)
    found = runtime(options.runtime)
    if found.reason:
        print(f"{found.name} is unavailable: {found.reason}", file=sys.stderr)
        return 3
    file = options.file.resolve()
    only = [name for name in test_names(file) if options.k in name] if file.is_file() else []
    if not only:
        print(f"no test in {options.file} matches {options.k!r}", file=sys.stderr)
        return 2
    with compiled() if options.mpy else contextlib.nullcontext(LIB) as lib:
        process = start(found, file, only if options.k else None, options.heap, lib)
        status = wait(process, timeout_of(file))[1]
    if status == 124:
        print(f"out of time: {timeout_of(file)} s", file=sys.stderr)
    return status if status in (0, 124) else 1


if __name__ == "__main__":
    sys.exit(main())
