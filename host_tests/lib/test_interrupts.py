"""Ctrl-C and MemoryError at any line of the library: no message is lost, none of QoS 2 comes twice, no half packet is
followed by another one, and the client goes on by itself.

A trace function raises where a signal could; the crash explorer's broker and oracle judge."""

import sys

import pytest

from dev.reference.oracle import Finding
from host_tests.crash.world import World
from inflight import OutboxFull
from inflight.packet import ProtocolError

SETUP = {"sectors": 5, "size": 1024, "age": 0, "max_inflight": 4, "buffer": 256, "granularity": "page-64"}
STEPS = [
    ["publish", 20, 1],
    ["connect", None, None],
    ["publish", 60, 2],
    ["give", 2, 20],
    ["settle"],
    ["publish", 300, 1],
    ["give", 1, 5],
    ["publish", 20, 0],
    ["publish", 20, 2],
    ["drop", 1],
    ["publish", 20, 2],
    ["connect", None, None],
    ["settle"],
]


_OF_A_MESSAGE = ("topic", "payload", "view", "offset", "redelivered")


class Interrupt:
    """Raises `error` at line `k` of lib/inflight that runs from now on, once. `left`: lines until then. names: only
    lines of these functions count."""

    def __init__(self, k, error, names=()):
        self.left, self.error, self._names = k, error, names

    def __enter__(self):
        sys.settrace(self._call)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def _call(self, frame, event, arg):
        code = frame.f_code
        # What a handler reads raises in the handler, which is the application's.
        wanted = code.co_name in self._names if self._names else code.co_name not in _OF_A_MESSAGE
        return self._line if "/lib/inflight/" in code.co_filename and wanted else None

    def _line(self, frame, event, arg):
        if event == "line":
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise self.error
        return self._line


def lines(names=()):
    """How many lines of the library run in the whole script."""
    world = World(SETUP)
    world.power_on()
    with Interrupt(1 << 60, None, names) as counter:
        world.play(STEPS)
    return (1 << 60) - counter.left


def interrupted(k, error, names=()):
    """The script with an interrupt at line k, and what follows: everything is delivered, and judged."""
    world = World(SETUP)
    world.power_on()
    with Interrupt(k, error, names):
        try:
            world.play(STEPS)
        except (KeyboardInterrupt, MemoryError):
            world.interrupted()
        except (OSError, ProtocolError, OutboxFull) as e:
            raise AssertionError(f"{e!r} where the program had been interrupted") from e
    world.play(STEPS)


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("quick_crc")
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_at_any_line(error):
    """[MQTT-4.1.0-1] [MQTT-4.3.3-1] [MQTT-4.4.0-1]"""
    total = lines()
    step = max(1, total // 300)
    for k in range(1, total, step):
        try:
            interrupted(k, error)
        except (AssertionError, Finding) as finding:
            raise AssertionError(f"at line {k} of {total}: {finding}") from finding


@pytest.mark.usefixtures("quick_crc")
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_around_the_application(error):
    """Whatever line around a handler or callback it comes at, the client knows that none runs any more."""
    around = ("_report", "_deliver")
    for k in range(lines(around)):
        interrupted(k, error, around)
