"""Runs every `test_*` of a module on MicroPython and CPython."""

import gc
import os
import sys

_ARCH = getattr(sys.implementation, "_mpy", 0) >> 10 & 15  # MicroPython's: 1 x86, 2 x64, then ARM; 0 CPython
EMULATED = _ARCH > 2 or sys.platform == "webassembly"  # takes ten times as long: fewer inputs, fewer kinds of flash
# CPython and MicroPython with 32 bits try every 9th power cut and bit flip, with 64 bits every 27th, emulated
# interpreters every 81st: odd steps, so that all bits of a byte are covered. With INFLIGHT_TOOLS=1 CPython tries every
# third, and each by `make crash`.
CUT_STEP = 81 if EMULATED else 27 if _ARCH == 2 else 9
if not (_ARCH or EMULATED):
    CUT_STEP = 1 if os.getenv("INFLIGHT_ALL_CUTS") else 3 if os.getenv("INFLIGHT_TOOLS") else CUT_STEP


class SkipTest(Exception):
    """Raise it in a test, or while the file is imported, with the reason why it cannot run here."""


def eq(a, b):
    """Assert that a == b; the error shows both."""
    if a != b:
        raise AssertionError("%r != %r" % (a, b))


def raises(exc, fn, *args):
    """Assert that fn(*args) raises `exc` (a class or a tuple of them); returns what was raised."""
    try:
        fn(*args)
    except exc as error:
        return error
    raise AssertionError("%r did not raise %r" % (fn, exc))


def allocated(fn, *args):
    """Bytes of heap that the second call of fn(*args) allocates: nothing is collected meanwhile. Skips the test where
    the interpreter does not tell."""
    if not hasattr(gc, "mem_alloc"):
        raise SkipTest("CPython does not tell")
    fn(*args)
    gc.collect()
    gc.disable()
    try:
        before = gc.mem_alloc()
        fn(*args)
        return gc.mem_alloc() - before
    finally:
        gc.enable()


def print_exception(error):
    if hasattr(sys, "print_exception"):
        sys.print_exception(error, sys.stdout)
    else:
        import traceback

        traceback.print_exception(type(error), error, error.__traceback__, file=sys.stdout)


def run_one(name, fn):
    """Run one test, print its line; returns "ok", "FAIL" or "skip"."""
    gc.collect()
    try:
        fn()
    except SkipTest as reason:
        print("skip %s: %s" % (name, reason))
        return "skip"
    except Exception as error:  # a MemoryError too: one test's failure must not hide the next
        print("FAIL", name)
        print_exception(error)
        return "FAIL"
    print("ok", name)
    return "ok"


def run(module, only=None):
    """Run the tests of `module`, or those whose names are in `only`; returns the number of failures."""
    counts = {"ok": 0, "FAIL": 0, "skip": 0}
    for name in sorted(dir(module)):
        if name.startswith("test_") and (only is None or name in only):
            counts[run_one(name, getattr(module, name))] += 1
    print("%d ok, %d failed, %d skipped" % (counts["ok"], counts["FAIL"], counts["skip"]))
    return counts["FAIL"]


def main(name, only=None):
    """Import module `name`, run it, leave with status 1 if a test failed. It is skipped if it imports sockets, and this
    runtime has none."""
    try:
        module = __import__(name)
    except SkipTest as reason:
        print("skip *: %s" % reason)
        return
    except ImportError as error:
        if "'socket'" not in str(error):
            raise
        print("skip *: has no sockets")
        return
    if run(module, only):
        sys.exit(1)
