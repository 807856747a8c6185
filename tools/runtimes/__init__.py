"""The interpreters that device code is tested on: `python -m tools.runtimes` lists them."""

import os
import sys
from dataclasses import dataclass, replace

from tools.setup.programs import TESTS, known_programs, settled

NAMES = ("cpython", "micropython-x64", "micropython-x86", "micropython-armhf")
# These run host_tests/device alone: two of them with the byte loops of the library as machine code; the newest
# MicroPython, without sockets; one that the person names.
_NATIVE = {f"native-{processor}": processor for processor in ("x64", "x86")}
OWN = os.environ.get("INFLIGHT_MICROPYTHON")
DEVICE_NAMES = (*NAMES, *_NATIVE, "micropython-wasm", *(["micropython-own"] if OWN else []))


@dataclass(frozen=True)
class Runtime:
    name: str
    argv: tuple = ()
    reason: str = ""  # why it is unavailable; empty when it is not
    processor: str = ""  # the byte loops are machine code for it; empty: bytecode

    @property
    def micropython(self):
        return self.name != "cpython"

    def command(self, heap=None):
        """argv up to the script; `heap` is MicroPython's heap size as it reads it ("200k"), which CPython has not."""
        return [*self.argv, *(("-X", f"heapsize={heap}") if heap and self.micropython else ())]


def _record(name):
    target = "setup-tests" if any(name == program.name for program in TESTS) else "setup"
    return known_programs().get(name, {"reason": f"not set up: run `make {target}`", "temporary": True})


def runtime(name):
    """The Runtime `name`; ValueError for a name that does not exist."""
    if name not in DEVICE_NAMES:
        raise ValueError(f"no runtime {name!r}: there are {', '.join(DEVICE_NAMES)}")
    if name == "cpython":
        return Runtime(name, (sys.executable,))
    if name in _NATIVE:
        return replace(runtime(f"micropython-{_NATIVE[name]}"), name=name, processor=_NATIVE[name])
    if name == "micropython-own":
        return Runtime(name, (OWN,))
    record = _record(name)
    if "argv" in record and settled(record):
        return Runtime(name, tuple(record["argv"]))
    return Runtime(name, reason=record.get("reason", "its files are gone from the cache: run `make setup`"))


def unavailable(name):
    """Why there is no program `name` ("mosquitto") here; empty when there is one."""
    record = _record(name)
    return "" if "argv" in record else f"{name} is unavailable: {record['reason']}"


def program(name):
    """argv of a program that is no runtime; RuntimeError with the reason when there is none."""
    if reason := unavailable(name):
        raise RuntimeError(reason)
    return list(_record(name)["argv"])


def runtimes():
    return [runtime(name) for name in DEVICE_NAMES]
