# Starts the application as main.py does, and prints `stack N PLACE` for each place that has more of the stack in use
# than any before. N is bytes on an RP2040, where a function takes as many as on a 32-bit ARM with Linux. Looked at are
# the deepest places: imports, and accesses to the journal's flash, of few sectors, which are soon used up.

import builtins

import micropython

import board
from nor import NorFlash

_IMPORT = 920  # there, from the import of a file until its code runs; the unix port takes 4 KB for a path
_BEGIN = 524  # in use there when main.py starts
_CALL = 248  # of a method
_VERIFY = _CALL  # a pinned file is looked at before each access

most = 0
imports = []  # the stack in use at those under way
begin = micropython.stack_use()


def _note(use, what):
    global most
    if use > most:
        most = use
        print("stack", use, what)


def _now():
    return _BEGIN + micropython.stack_use() - begin - _CALL


def _import(name, *arguments):
    use = imports[-1] + _IMPORT if imports else _now()
    _note(use, name)
    imports.append(use)
    try:
        if len(arguments) > 3 and arguments[3]:  # it is relative, and this module is not of the package
            return load("inflight." + name if name else "inflight", None, None, arguments[2], 0)
        return load(name, *arguments)
    finally:
        imports.pop()


class _Flash(NorFlash):
    def readblocks(self, *arguments):
        _note(_now() + _VERIFY, "read")
        super().readblocks(*arguments)

    def writeblocks(self, *arguments):
        _note(_now() + _VERIFY, "write")
        super().writeblocks(*arguments)

    def ioctl(self, *arguments):
        _note(_now() + _VERIFY, "ioctl")
        return super().ioctl(*arguments)


board.journal_flash = lambda kb: _Flash(5, 4096)
load = builtins.__import__
builtins.__import__ = _import
__import__("launch").main()
__import__("start").main()
