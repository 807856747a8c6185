"""Machine code for a board's processor. Functions whose arguments are typed ptr8 and the like are loops over single
bytes (lib/inflight/journal/pages.py): for a known processor mpy-cross compiles them as viper functions, for others as
the bytecode that all functions are.

MicroPython refuses to import machine code of another processor, or of another version of that form. A firmware tells
in sys.implementation._mpy what it imports, in the form of the second and third byte of a .mpy file: bits 0 to 7 the
version, 8 and 9 the version of machine code, 10 to 13 the processor."""

import ast
import re

from inflight_tools.boards.images.release import told

# As mpy-cross -march calls the processors, by their numbers in .mpy files. 0: bytecode, without machine code.
PROCESSORS = ["", *"x86 x64 armv6 armv6m armv7m armv7em armv7emsp armv7emdp xtensa xtensawin rv32imc".split()]
_CORTEX = range(PROCESSORS.index("armv6m"), PROCESSORS.index("armv7emdp") + 1)  # each takes the code of earlier ones
_VERSION, _OF_CODE = 6, 3  # what mpy-cross 1.25 writes
_LOADS = (1, 23), (1, 29)  # the first and the last release of MicroPython that is known to load machine code of that
_TYPE = re.compile(r"ptr(8|16|32)")
_EMITTER = b"ptr32"  # among the names of a firmware that has machine code


def number(processor):
    """What sys.implementation._mpy is, but for higher bits, where machine code for `processor` is imported. "": the
    version of bytecode alone."""
    if not processor:
        return _VERSION
    return _VERSION | _OF_CODE << 8 | PROCESSORS.index(processor) << 10


def imports(mpy, wanted):
    """True if MicroPython with sys.implementation._mpy `mpy` imports machine code with the number `wanted`."""
    mine, other = mpy >> 10 & 15, wanted >> 10 & 15
    same = mpy & 0x3FF == wanted & 0x3FF
    return same and (mine == other or (mine in _CORTEX and other in _CORTEX and other < mine))


def fitting(mpy, processors):
    """The first of `processors` whose machine code is imported where sys.implementation._mpy is `mpy`; "" if there is
    none: bytecode is for all."""
    return next((name for name in processors if name and imports(mpy, number(name))), "")


def of_firmware(code, processor):
    """The `processor` of a board, if its firmware `code` (bytes) imports machine code; "" otherwise."""
    release = told(code)
    known = release and _LOADS[0] <= release <= _LOADS[1]
    return processor if known and _EMITTER in code else ""


def viper(text):
    """The source `text` with its loops as viper functions; None if it has none."""
    if not _TYPE.search(text):  # most have none, and parsing takes longer
        return None
    tree = ast.parse(text)
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _has_pointers(node)]
    for function in loops:
        function.decorator_list.append(ast.parse("micropython.viper", mode="eval").body)
    return ast.unparse(tree) + "\n" if loops else None


def _has_pointers(function):
    types = [ast.unparse(arg.annotation) for arg in function.args.args if arg.annotation]
    return any(map(_TYPE.fullmatch, types))
