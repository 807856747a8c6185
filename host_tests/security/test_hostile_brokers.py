"""Promise: a broker that wants to can exhaust neither memory, nor flash, nor time: the connection ends or the device's
own messages get through. Each runs on 32-bit MicroPython with little heap, with both clients, and on CPython."""

import contextlib
import json
import time

import pytest

from dev import device_run, runtimes
from dev.reference.kinds import CONNECT, DISCONNECT, PINGREQ, PUBLISH, PUBREC, PUBREL, SUBSCRIBE
from dev.reference.wire import Violation, connack, pingresp, puback, pubcomp, publish, pubrec, pubrel, suback
from host_tests.broker import Gone
from host_tests.processes import running
from host_tests.security.scripts import LIMIT_S, SCRIPTS

HEAP = {"blocking": "128k", "asyncio": "160k"}
MODULES = 4096  # bytes that modules take which are loaded while a client connects or subscribes
LIVES = 3  # connections on which the broker misbehaves, before it becomes honest
TIMEOUT_MS = 1000
INBOUND = 16
WHERE = [("cpython", "blocking"), ("micropython-x86", "blocking"), ("micropython-x86", "asyncio")]


def welcomed(b, p):
    """The CONNACK to CONNECT p of a broker that keeps sessions."""
    present = getattr(b, "session", False) and not p.clean
    b.session = not p.clean
    return connack(present)


def honest(b):
    """From CONNECT on, as it should be. Ends with the connection."""
    while True:
        p = b.receive()
        answer = {
            CONNECT: lambda p: welcomed(b, p),
            SUBSCRIBE: lambda p: suback(p.mid, *(qos for _, qos in p.filters)),
            PUBLISH: lambda p: pubrec(p.mid) if p.qos == 2 else puback(p.mid),
            PUBREL: lambda p: pubcomp(p.mid),
            PUBREC: lambda p: pubrel(p.mid),
            PINGREQ: lambda p: pingresp(),
        }.get(p.kind)
        if answer:
            b.send(answer(p))


def greeted(b):
    """CONNECT and SUBSCRIBE, answered."""
    b.send(welcomed(b, b.expect(CONNECT)))
    while len(b.connections) == 1:  # afterwards it knows that the broker knows
        p = b.receive()
        if p.kind == SUBSCRIBE:
            b.send(suback(p.mid, 2))
            return


def until_it_leaves(b, packets):
    """Sends these again and again, reading what the client says, until it has had enough."""
    for data in packets:
        b.send(data)
        while b.connection.next():
            pass
    while True:
        b.receive()


# --- what brokers do; each gets a broker that has accepted a connection ---


def qos_2_without_pubrel(b):
    greeted(b)
    until_it_leaves(b, (publish("t/x", b"x" * 20, 2, mid) for mid in range(1, 5000)))


def qos_2_with_new_topics_under_one_id(b):
    greeted(b)
    many = (publish(f"t/{k}", b"x", 2, 7, dup=k % 2) for k in range(2000))
    until_it_leaves(b, [*many, b"\xff"])


def qos_1_flood(b):
    greeted(b)
    until_it_leaves(b, [*(publish("t/x", b"x" * 100, 1, 1 + k % 65535) for k in range(3000)), b"\xff"])


def retained_flood(b):
    """Of names and payloads that are all different."""
    greeted(b)
    until_it_leaves(b, [*(publish(f"t/{k:08}", b"%d" % k * 20, 0, retain=1) for k in range(3000)), b"\xff"])


def pingresp_flood(b):
    greeted(b)
    until_it_leaves(b, [*(pingresp() * 50 for _ in range(200)), b"\xff"])


def acks_of_nothing(b):
    greeted(b)
    kinds = (puback, pubrec, pubcomp, pubrel)
    until_it_leaves(b, [*(kinds[k % 4](40_000 + k) for k in range(4000)), b"\xff"])


def a_quarter_of_a_gigabyte(b):
    """Announced, a little of it sent."""
    greeted(b)
    until_it_leaves(b, [b"\x30\xff\xff\xff\x7f\0\3t/x" + bytes(20_000)])


def one_byte_now_and_then(b):
    """Of a message that never ends, and never two."""
    greeted(b)
    b.send(b"\x30\xff\xff\xff\x7f\0\3t/x")
    while True:
        b.send(b"x")
        time.sleep(0.1)


def longest_topics(b):
    greeted(b)
    until_it_leaves(b, [*(publish("t/" + "x" * 65_000, b"", 1, 1 + k) for k in range(20)), b"\xff"])


def suback_of_200_codes(b):
    b.expect(CONNECT)
    b.send(connack(0))
    while True:
        p = b.receive()
        if p.kind == SUBSCRIBE:
            b.send(suback(p.mid, *[0] * 200))


def longest_suback(b):
    b.expect(CONNECT)
    b.send(connack(0), b"\x90\xff\xff\xff\x7f" + bytes(5000))
    until_it_leaves(b, ())


def connack_never(b):
    b.expect(CONNECT)
    until_it_leaves(b, ())


def connack_one_byte_now_and_then(b):
    b.expect(CONNECT)
    for data in (b"\x20", b"\x82", b"\x80", b"\x80"):
        b.send(data)
        time.sleep(0.4)
    until_it_leaves(b, ())


def connack_again_and_again(b):
    greeted(b)
    until_it_leaves(b, [connack(1)] * 10)


def subscribed_never(b):
    """And a message after the other meanwhile."""
    b.expect(CONNECT)
    b.send(connack(0))
    while True:
        b.send(publish("t/x", b"x" * 50, 0))
        time.sleep(0.01)


def present_and_gone(b):
    """The session is there, and is not, by turns, and so is what it subscribed to."""
    b.expect(CONNECT)
    b.send(connack(len(b.connections) % 2 == 0))
    with contextlib.suppress(Violation):
        b.expect(SUBSCRIBE)
    b.cut()


def no_word_at_all(b):
    until_it_leaves(b, ())


WAYS = [
    qos_2_without_pubrel,
    qos_2_with_new_topics_under_one_id,
    qos_1_flood,
    retained_flood,
    pingresp_flood,
    acks_of_nothing,
    a_quarter_of_a_gigabyte,
    one_byte_now_and_then,
    longest_topics,
    suback_of_200_codes,
    longest_suback,
    connack_never,
    connack_one_byte_now_and_then,
    connack_again_and_again,
    subscribed_never,
    present_and_gone,
    no_word_at_all,
]


# A broker that is alive is given ten time-outs for one answer: with these it ends by that, so they are shorter.
TIMEOUTS_MS = {one_byte_now_and_then: 400, subscribed_never: 400}


@pytest.fixture(scope="module")
def found(request):
    """The interpreter, and the library as it is deployed there."""
    found = runtimes.runtime(request.param)
    if found.reason:
        pytest.skip(f"{found.name} is unavailable: {found.reason}")
    with device_run.compiled() if found.micropython else contextlib.nullcontext(device_run.LIB) as lib:
        yield found, lib


def suffered(broker, kind, found, lib, way):
    """What the client tells when it is through; `way` None: the broker is honest at once."""

    def script(b):
        for _ in range(LIVES if way else 0):
            b.accept()
            with contextlib.suppress(Gone):
                way(b)
        while True:
            b.accept()
            with contextlib.suppress(Gone):
                honest(b)
            packets = b.connection.packets
            if len(packets) > 2 and packets[-1].kind == DISCONNECT:
                return

    timeout = TIMEOUTS_MS.get(way, TIMEOUT_MS)
    with (
        broker.play(script),
        running(found, SCRIPTS / "hostile_client.py", kind, broker.port, timeout, heap=HEAP[kind], lib=lib) as process,
    ):
        output = process.communicate(timeout=LIMIT_S)[0]
        assert process.returncode == 0, output
    return json.loads(output)


@pytest.mark.parametrize("found, kind", WHERE, indirect=["found"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_hostile(broker, found, kind, way):
    told = suffered(broker, kind, *found, way)
    assert told["pending"] == 0 and told["accepted"] == told["completed"] == 6
    assert told["connects"] + told["refused"] <= LIVES + 8
    assert told["protocol_errors"] <= LIVES, told
    # The table of ids was there from the start; what a handler is given is gone when it returns.
    assert told["most"] - told["first"] < MODULES, told
    # A record of 15 bytes for each id that is held, of 1,004 in a sector.
    assert told["erases"] <= 2, told


@pytest.mark.parametrize("found", ["cpython", "micropython-x86"], indirect=True)
def test_honest_from_the_beginning(broker, found):
    """Or it might be the test that makes them go on."""
    told = suffered(broker, "blocking", *found, None)
    assert told["connects"] == 1 and told["completed"] == 6
