"""Promise: a hostile broker can exhaust neither memory, nor flash, nor time. Either the connection ends, or the
device's messages are delivered. Each attack runs on 32-bit MicroPython with little free heap, and with
INFLIGHT_TOOLS=1 on CPython."""

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from host_tests.absent import interpreter
from host_tests.broker import Broker, Gone
from host_tests.processes import running
from host_tests.security.scripts import LIMIT_S, SCRIPTS
from host_tests.thorough import more
from tools.reference.kinds import CONNECT, DISCONNECT, SUBSCRIBE
from tools.reference.server import Connection, Server
from tools.reference.wire import Violation, connack, publish, suback
from tools.runtimes import device_run

WORKER = "hostile brokers"
HEAP = 64 * 1024  # bytes beside what the client holds with every module loaded, for garbage and fragments as well
# Bytes of heap: tables of the asyncio client, and what is being received; and a module that was given back, and stays
# because something on the stack looks like a reference to it.
GROWTH = 1024 + 1600
CONNECTIONS = 3  # with an attack, before the broker behaves
TIMEOUT_MS = 1000
AT_ONCE = 4  # clients
CLIENTS = [("micropython-x86", "blocking"), ("micropython-x86", "asyncio"), *more(("cpython", "blocking"))]


def behave(b, until=None):
    """Answers as the standard says, until the connection ends, or a packet of this kind is answered."""
    connection = Connection(b.server)
    while True:
        p = b.receive()
        connection.packet_received(p)
        b.send(connection.data_to_send())
        if p.kind == until:
            return


def accept_client(b):
    """Answers CONNECT and, on the first connection, SUBSCRIBE: later connections have the session."""
    behave(b, SUBSCRIBE if len(b.connections) == 1 else CONNECT)


def send_until_closed(b, packets):
    """Sends these packets, and reads what the client sends, until the client closes the connection."""
    for data in packets:
        b.send(data)
        while b.connection.next():
            pass
    while True:
        b.receive()


# Packets behind the SUBACK, and what ends the connection.
PACKETS = {
    "QoS 2 without PUBREL": lambda: (publish("t/x", b"x" * 20, 2, mid) for mid in range(1, 2000)),
    "QoS 2 with new topics under one id": lambda: (publish(f"t/{k}", b"x", 2, 7, dup=k % 2) for k in range(2000)),
    "QoS 1": lambda: (publish("t/x", b"x" * 100, 1, 1 + k % 65535) for k in range(2000)),
    "retained, all different": lambda: (publish(f"t/{k:08}", b"%d" % k * 20, 0, retain=1) for k in range(2000)),
    "longest topics": lambda: (publish("t/" + "x" * 65_000, b"", 1, 1 + k) for k in range(8)),
    "a quarter of a gigabyte that does not come": lambda: [b"\x30\xff\xff\xff\x7f\0\3t/x" + bytes(20_000)],
}


def sends(packets):
    def attack(b):
        accept_client(b)
        send_until_closed(b, [*packets(), b"\xff"])

    return attack


def one_byte_now_and_then(b):
    """One byte at a time of a message that never ends."""
    accept_client(b)
    b.send(b"\x30\xff\xff\xff\x7f\0\3t/x")
    while True:
        b.send(b"x")
        b.sleep(0.1)


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
    send_until_closed(b, ())


def connack_one_byte_now_and_then(b):
    b.expect(CONNECT)
    for data in (b"\x20", b"\x82", b"\x80", b"\x80"):
        b.send(data)
        b.sleep(0.4)
    send_until_closed(b, ())


def pings_never_answered(b):
    """But one message after another."""
    accept_client(b)
    while True:
        b.send(publish("t/x", b"x" * 50, 0))
        b.sleep(0.001)


def present_and_gone(b):
    """Session present alternates, and the connection is closed."""
    b.expect(CONNECT)
    b.send(connack(len(b.connections) % 2 == 0))
    with contextlib.suppress(Violation):
        b.expect(SUBSCRIBE)
    b.cut()


ATTACKS = {name: sends(packets) for name, packets in PACKETS.items()} | {
    "one byte now and then": one_byte_now_and_then,
    "SUBACK of 200 codes": suback_of_200_codes,
    "longest SUBACK": longest_suback,
    "CONNACK, one byte now and then": connack_one_byte_now_and_then,
    "pings never answered": pings_never_answered,
    "session present and gone": present_and_gone,
    "no word at all": lambda b: send_until_closed(b, ()),
}


# If data arrives, the client waits ten time-outs for an answer. These attacks last that long, so they get shorter ones.
TIMEOUTS_MS = {"one byte now and then": 400, "pings never answered": 400}


@pytest.fixture(scope="module")
def results(request):
    """{attack: Future of run_client()} of a client, for the attacks of the tests that run: most of them are waiting."""
    name, kind = request.param
    tests = [item.callspec.params for item in request.session.items if "results" in getattr(item, "fixturenames", ())]
    chosen = [params["attack"] for params in tests if params["results"] == request.param]
    found = interpreter(name)
    library = device_run.compiled() if found.micropython else contextlib.nullcontext()  # as it is deployed
    with library as lib, ThreadPoolExecutor(AT_ONCE) as pool:
        heap = run_client(kind, found, lib, None)["first"] + HEAP
        yield {attack: pool.submit(run_client, kind, found, lib, attack, heap) for attack in chosen}
        pool.shutdown(cancel_futures=True)


def run_client(kind, found, lib, attack, heap=None):
    """Runs the client until it has delivered its messages. Returns its figures. `attack`: its name, None for none.
    `heap`: of MicroPython, in bytes; None for much."""

    def script(b):
        b.server = Server()
        for _ in range(CONNECTIONS if attack else 0):
            b.accept()
            with contextlib.suppress(Gone):
                ATTACKS[attack](b)
        while True:
            b.accept()
            with contextlib.suppress(Gone):
                behave(b)
            packets = b.connection.packets
            if len(packets) > 2 and packets[-1].kind == DISCONNECT:
                return

    timeout = TIMEOUTS_MS.get(attack, TIMEOUT_MS)
    with (
        contextlib.closing(Broker()) as broker,
        broker.play(script),
        running(found, SCRIPTS / "hostile_client.py", kind, broker.port, timeout, heap=heap, lib=lib) as process,
    ):
        output = process.communicate(timeout=LIMIT_S)[0]
        assert process.returncode == 0, output
    return json.loads(output)


@pytest.mark.parametrize("results", CLIENTS, ids="-".join, indirect=True)
@pytest.mark.parametrize("attack", ATTACKS)
def test_hostile(results, attack):
    result = results[attack].result()
    assert result["pending"] == 0 and result["accepted"] == result["completed"] == 6
    assert result["connects"] + result["refused"] <= CONNECTIONS + 8
    assert result["protocol_errors"] <= CONNECTIONS, result
    # The table of Message IDs has a fixed size, and messages are not kept after the handler returns.
    assert result["most"] - result["first"] < GROWTH, result
    # Each received Message ID takes a record of 15 bytes; a sector has 1,004 bytes for records.
    assert result["erases"] <= 2, result
