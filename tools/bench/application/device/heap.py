# The heap that the application holds: argv is the file with the flash of a board, the board's folder, and "modules" to
# print what each module takes that stays. Prints a line of its bytes whenever the watchdog is fed, and with it
# MicroPython's own line of the names that it has made.

import builtins
import gc
import sys

import micropython

import port
from held import held


def _tell():
    micropython.qstr_info()
    print("%d bytes of heap" % (held() - _before))


def _measured(name, *arguments):
    """Imports like __import__(), and prints what is more than before, without what it imports itself."""
    if len(arguments) > 3 and arguments[3]:  # it is relative, and this module is not of the package
        name, arguments = ("inflight.%s" % name).rstrip("."), (None, None, arguments[2])
    elif name in sys.modules:
        return _load(name, *arguments)
    start = held()
    _inner.append(0)
    try:
        return _load(name, *arguments)
    finally:
        took = held() - start
        own = took - _inner.pop()
        _inner[-1] += took
        if own > 0:
            print("%d bytes of module %s" % (own, name))


port.start(sys.argv[1], sys.argv[2] == "esp32", _tell)
del sys.modules["port"], sys.modules["held"]
sys.path[:] = ["/lib"]
gc.threshold(16 * 1024)
_before = held()
if len(sys.argv) > 3:
    _inner = [0]
    _load = builtins.__import__
    builtins.__import__ = _measured
_tell()
__import__("launch").main()
__import__("start").main()
