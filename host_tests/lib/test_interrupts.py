"""Ctrl-C, MemoryError, a commit that fails, or a call within a call, at any line of the library: any other call brings
the client back, and no message is lost, doubled, or discarded without its handler. tools.crash.interrupts plays and
judges; `make crash` takes every line."""

import contextlib
from functools import partial
from itertools import product
from pathlib import Path

import pytest

import inflight
from host_tests.thorough import THOROUGH
from inflight import Client, Journal, RamFlash
from tools.crash.interrupts import CLIENTS, EVENTS, POINTS, Point, explore
from tools.reference.at_line import AtLine

STRIDE = 101 if THOROUGH else 503
pytestmark = [pytest.mark.timeout(1800), pytest.mark.usefixtures("quick_crc")]


@pytest.mark.parametrize(("client", "level", "event"), dict.fromkeys((p.client, p.level, p.event) for p in POINTS))
def test_a_call_interrupted_at_any_line(client, level, event):
    """[MQTT-4.1.0-1] [MQTT-4.3.2-1] [MQTT-4.3.3-1] [MQTT-4.4.0-1] [MQTT-4.6.0-1]"""
    for i, point in enumerate(POINTS):
        if (point.client, point.level, point.event) != (client, level, event):
            continue
        _, found = explore(point, *((0, 1) if event == "OSError" else (37 * i % 100, STRIDE)))
        assert not found, found


_CONNECTED = "_steps _call_steps _open_steps _take_granted _subscribe_again_steps"
# What comes, in which call, at each line or bytecode ("opcode") of which functions.
CLOSELY = {
    "packets of one read": ("KeyboardInterrupt", "run, connected", "line", "_step"),
    "around a handler": ("KeyboardInterrupt", "run, connected", "line", "_deliver _report _leave _return"),
    "a new filter": ("KeyboardInterrupt", "subscribe", "opcode", "_add_handlers _remove_handlers"),
    "a filter that has a handler": ("KeyboardInterrupt", "subscribe again", "opcode", "_add_handlers"),
    "CONNACK": ("KeyboardInterrupt", "run, forgotten", "line", _CONNECTED + " _subscribe_steps"),
    "a mount": ("KeyboardInterrupt", "run, which recovers", "line", "recover _mount_again _clear"),
    "a search": ("KeyboardInterrupt", "is_pending", "line", "is_pending _begin"),
    "the end": ("KeyboardInterrupt", "disconnect", "line", "disconnect _end _close _stop _try_disconnect"),
    "tasks": ("KeyboardInterrupt", "connect", "line", "__setattr__ _start _run _watch _run_connection _run_anew"),
    "a message that is handed over": ("KeyboardInterrupt", "async for", "line", "_take take next _release"),
    "a record in RAM": ("KeyboardInterrupt", "run", "line", "_put"),
    "the lock": ("publish", "run, which recovers", "line", "call"),
}
SOURCES = "".join(map(Path.read_text, Path(inflight.__file__).parent.rglob("*.py")))
# Which client has such functions, if not both.
ONLY = dict.fromkeys(("tasks", "a message that is handed over", "a record in RAM"), "asyncio")
ONLY["the lock"] = "blocking"


@pytest.mark.parametrize(
    ("name", "client"), [row for row in product(CLOSELY, CLIENTS) if ONLY.get(row[0]) in (None, row[1])]
)
def test_what_stands_for_a_while(name, client):
    """Flags, handlers, tasks and numbers that one line sets and another one takes back."""
    event, call, unit, names = CLOSELY[name]
    names = names.split()
    assert all(f"def {each}(" in SOURCES for each in names)
    n, found = explore(Point(client, 5 if client == "blocking" else 4, call, event), 0, 1, names, unit)
    assert not found, found
    assert n


def test_a_journal_whose_mount_was_interrupted():
    """The next client on it finds all messages."""
    for k in range(0, 700, 23):
        journal = Journal(RamFlash())
        client = Client("127.0.0.1", "dev", journal)
        mids = [client.publish("t", b"x", 1) for _ in range(5)]
        interrupt = partial(EVENTS["KeyboardInterrupt"], client)
        with AtLine(k, interrupt), contextlib.suppress(KeyboardInterrupt):
            client.session.recover()
        assert client.pending == 5
        other = Client("127.0.0.1", "dev", journal)
        assert [message[0] for message in other.pending_messages()] == mids
