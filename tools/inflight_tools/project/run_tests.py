"""Device code that runs tests, on MicroPython or CPython: main(names of modules) ends the program, with 1 if a test has
failed."""

import sys


def main(names):
    failed = 0
    for name in names:
        module = __import__(name)
        for test in [one for one in sorted(dir(module)) if one.startswith("test_")]:
            try:
                getattr(module, test)()
                print("ok", test)
            except Exception as e:
                failed += 1
                print("FAILED", test)
                show(e)
    sys.exit(1 if failed else 0)


def show(error):
    if hasattr(sys, "print_exception"):
        sys.print_exception(error)
    else:
        import traceback

        traceback.print_exception(error, file=sys.stdout)
