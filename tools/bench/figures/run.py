"""Runs the scripts in device/ on MicroPython, with the clients compiled as on a board."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

from inflight_tools.boards.build.bundle import compile_all, compile_mpy, library
from inflight_tools.boards.build.rename import mentioned
from inflight_tools.boards.device.rom import image
from inflight_tools.cache import write_below
from tools.bench.figures import peers as others
from tools.setup.common import CHECKOUT

SCRIPTS = Path(__file__).resolve().parent / "device"
_FOLDERS = SCRIPTS, SCRIPTS.with_name("cpython")
OURS = "inflight"
# Mounts the ROM image argv[1] outside of the heap, as on a board, and runs the rest of argv.
_IN_ROM = """
import ffi, sys, uctypes, vfs
libc = ffi.open(None)
file = libc.func("i", "open", "si")(sys.argv[1], 0)
size = libc.func("i", "lseek", "iii")(file, 0, 2)
at = libc.func("p", "mmap", "piiiii")(0, size, 1, 2, file, 0)
vfs.mount(vfs.VfsRom(uctypes.bytearray_at(at, size)), "/rom")
sys.path.insert(0, "/rom/lib")
script = sys.argv[2]
del sys.argv[1:3]
del libc, file, size, at
__import__(script)
"""


class Failed(RuntimeError):
    """A script failed or timed out. The text has its output, `reason` is a few words of it."""

    def __init__(self, called, reason, output):
        super().__init__(f"{called}: {reason}; output: {output}")
        self.reason = reason


class Code:
    """The modules that scripts import, compiled into `folder`: the scripts, the library, and `peers`, {module: its
    files}."""

    def __init__(self, folder, interpreter, peers=None):
        self.interpreter = interpreter
        self.sizes = {}  # bytes of .mpy of each module, by contender
        self._folder = folder
        scripts = {path.stem: path for path in SCRIPTS.glob("*.py")}
        found = compile_all(library() | scripts, _shared_names(peers or {}))
        self._write(found)
        self.sizes[OURS] = {place.partition("/")[2]: len(data) for place, data in found.items() if "/" in place}
        for name, files in (peers or {}).items():
            compiled = {place: compile_mpy(file.read_text(), file.name) for place, file in files.items()}
            self._write(compiled)
            self.sizes[name] = {place: len(data) for place, data in compiled.items()}
        self._image = folder / "image.romfs"
        self._image.write_bytes(image({f"/lib/{place}.mpy": data for place, data in found.items()}))

    def _write(self, compiled):
        write_below(self._folder / "lib", {f"{place}.mpy": data for place, data in compiled.items()})

    def run(self, script, *args, heap="2m", rom=False, timeout=300):
        """Runs `script`, and returns what it printed as JSON. Raises Failed."""
        words = ["-c", _IN_ROM, str(self._image), script] if rom else ["-m", script]
        called = f"{script} {' '.join(map(str, args))}"
        try:
            done = subprocess.run(
                [*self.interpreter.command(heap), *map(str, [*words, *args])],
                # The path of a module is a string in the heap: here it is as long as on a board, where it is /lib/...
                env={} if rom else {"MICROPYPATH": ".frozen:./lib"},
                cwd=self._folder,
                capture_output=True,
                text=True,
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as e:
            raise Failed(called, f"no end within {timeout} s", repr((e.stdout or b"")[-1000:])) from None
        output = (done.stderr or done.stdout).strip()
        if done.returncode:
            raise Failed(called, (output.splitlines() or [f"exit status {done.returncode}"])[-1], output)
        try:
            return json.loads(done.stdout)
        except ValueError:
            raise Failed(called, "no figures", output) from None


def on_cpython(script, *args):
    """Runs `script` on CPython, with the drivers of both folders, and returns what it printed as JSON."""
    (path,) = (path for folder in _FOLDERS if (path := folder / f"{script}.py").exists())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*_FOLDERS, CHECKOUT / "lib")))}
    command = [sys.executable, str(path), *map(str, args)]
    return json.loads(subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout)


def _shared_names(peers):
    """Names that other clients share with their drivers, and that mean something else in the library. No others: each
    name that the library has to keep costs it heap."""
    drivers = [mentioned((SCRIPTS / f"{name}.py").read_text()) for name in others.DRIVERS]
    clients = [mentioned(file.read_text()) for files in peers.values() for file in files.values()]
    return set().union(*drivers) & set().union(*clients)


@contextlib.contextmanager
def responder():
    """Runs a responder. Yields its port."""
    command = [sys.executable, "-m", "tools.bench.figures.responder"]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()
