"""Ctrl-C and MemoryError at any line of the library: no message is lost, no QoS 2 message comes twice, no packet
follows one sent in part, and the client continues.

A trace function raises where a signal could. The crash explorer's broker and oracle check the result."""

import contextlib

import pytest

from host_tests.broker import Broker, Gone
from host_tests.thorough import some
from inflight import Client, Journal, OutboxFull, RamFlash
from inflight.packet import ProtocolError
from tools.crash.simulation import Simulation
from tools.reference.at_line import AtLine
from tools.reference.kinds import PINGREQ, PUBLISH
from tools.reference.oracle import Finding
from tools.reference.wire import pingresp, puback, publish

SETUP = {"sectors": 5, "size": 1024, "age": 0, "max_inflight": 4, "buffer": 256, "granularity": "page-64"}
STEPS = [
    ["publish", 20, 1],
    ["connect", None, None],
    ["publish", 60, 2],
    ["incoming", 2, 20],
    ["settle"],
    ["publish", 300, 1],
    ["incoming", 1, 5],
    ["publish", 20, 0],
    ["publish", 20, 2],
    ["break", 1],
    ["publish", 20, 2],
    ["connect", None, None],
    ["settle"],
]


_OF_A_MESSAGE = ("topic", "payload", "view", "offset", "redelivered")


def at_line(k, error=None, names=()):
    """Raises `error` once, at line `k`. names: count only lines of these functions."""

    def interrupt():
        raise error

    def counts(code):
        if names:
            return code.co_name in names
        # An error in a property that a handler reads, or where it is called, would be the application's own error.
        calls = code.co_name == "_call" and code.co_filename.endswith("handlers.py")
        return code.co_name not in _OF_A_MESSAGE and not calls

    return AtLine(k, error and interrupt, counts)


def lines(names=()):
    """How many lines of the library run in the whole script."""
    simulation = Simulation(SETUP)
    simulation.power_on()
    with at_line(1 << 60, names=names) as counter:
        simulation.play(STEPS)
    return (1 << 60) - counter.left


def interrupted(k, error, names=()):
    """Plays the script with an interrupt at line k, delivers everything, and checks the result."""
    simulation = Simulation(SETUP)
    simulation.power_on()
    with at_line(k, error, names):
        try:
            simulation.play(STEPS)
        except (KeyboardInterrupt, MemoryError):
            simulation.interrupted()
        except (OSError, ProtocolError, OutboxFull) as e:
            raise AssertionError(f"{e!r} after the interrupt") from e
    simulation.play(STEPS)


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("quick_crc")
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_at_any_line(error):
    """[MQTT-4.1.0-1] [MQTT-4.3.3-1] [MQTT-4.4.0-1]"""
    total = lines()
    step = max(1, total // 300)
    for k in some(range(1, total, step), 3):
        try:
            interrupted(k, error)
        except (AssertionError, Finding) as finding:
            raise AssertionError(f"at line {k} of {total}: {finding}") from finding


@pytest.mark.usefixtures("quick_crc")
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_around_the_application(error):
    """At every line around a handler or callback: afterwards the client knows that none is running."""
    around = ("_report", "_deliver")
    for k in range(lines(around)):
        interrupted(k, error, around)


# Wherever its bytes are taken for a packet, that is a PUBACK.
LIKE_PUBACKS = bytes((0x40, 2, 0, 1)) * 30
SENT = [b"first", LIKE_PUBACKS, b"third" + LIKE_PUBACKS[:15]]


def pinged(k):
    """Two messages and a PINGRESP come in one read of ping(), which is interrupted at line k. One more follows, on this
    connection or the next one, then the PUBACK of a message of the client. Returns how many lines ran."""
    acknowledged = []

    def script(broker):
        broker.welcome()
        broker.grant()
        mid = broker.expect(PUBLISH).mid
        answers = [[publish("t", p) for p in SENT[:2]], [publish("t", SENT[2])], [puback(mid)]]
        while answers:
            try:
                if broker.receive().kind == PINGREQ:
                    if len(answers) == 1:
                        acknowledged.append(1)
                    broker.send(*answers.pop(0), pingresp())
            except Gone:
                broker.welcome(present=1)
        with contextlib.suppress(Gone):
            broker.receive()

    came, errors = [], []
    with contextlib.closing(Broker()) as broker, broker.play(script):
        client = Client("127.0.0.1", "dev", Journal(RamFlash()), port=broker.port, on_error=errors.append)
        client.subscribe("t", 0, lambda message: came.append(bytes(message.payload)))
        client.connect()
        mid = client.publish("out", b"own", 1)
        with at_line(k, KeyboardInterrupt) as lines, contextlib.suppress(KeyboardInterrupt):
            client.ping()
        while not acknowledged or client.is_pending(mid):
            assert client.is_pending(mid)
            try:
                client.ping()
            except OSError:
                client.connect()
        client.disconnect()
    assert not set(came).difference(SENT)
    assert not [error for error in errors if isinstance(error, ProtocolError)]
    return k - lines.left


def test_an_interrupt_between_two_packets_of_one_read():
    """What was read and not handled is handled later, or the connection ends: bytes of a payload are no packet."""
    k = 0
    while pinged(k) > k:
        k += 1
