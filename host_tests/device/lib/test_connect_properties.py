# Level 5: properties of CONNECT beside those that each client sends, and what comes of them.

from harness import eq, raises
from inflight import Client
from inflight.level5.authentication import Authentication
from inflight.level5.properties5 import attach_to_connect, connect_properties
from inflight.packet import ProtocolError
from session_peer5 import NONE, Peer5
from tools.reference import wire
from tools.reference.properties import block

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"

USER = (("firmware", "1.2"), ("firmware", "boot 3"), ("café", ""))


def peer(buffer=256, **arguments):
    found = Peer5(buffer=buffer)
    attach_to_connect(found.session, connect_properties(**arguments))
    return found


def test_everything():
    """[MQTT5-3.1.2-11] [MQTT5-3.1.2-28] [MQTT5-3.1.2-29] In each CONNECT."""
    found = peer(max_packet=4096, response_information=True, user=USER)
    for text in ("reply/", ""):
        own = [(0x11, 0xFFFFFFFF), (0x17, 0), (0x19, 1), (0x21, 20), (0x27, 4096)]
        p = found.call()
        eq(sorted([one for one in p.properties if one[0] != 0x26]), own)
        eq([pair for kind, pair in p.properties if kind == 0x26], list(USER))
        found.answer(0, *(((0x1A, text),) if text else ()))
        eq(found.session.response_information, text)
        found.lose()


def test_with_authentication():
    """[MQTT5-3.1.2-11] Together they may take more than 127 bytes."""
    found = peer(512, user=(("a", "b" * 100),))
    Authentication("token", lambda data: bytes(100)).attach(found.session)
    p = found.call()
    assert (0x26, ("a", "b" * 100)) in p.properties and (0x16, bytes(100)) in p.properties


def test_reason_of_a_refused_message():
    """[MQTT5-3.4.2-2] [MQTT5-3.5.2-2] The application is told the broker's text."""
    for reasons in (True, False):
        found = peer(reasons=reasons)
        properties = dict(found.call().properties)
        eq((properties.get(0x17), properties.get(0x27)), (None, 128) if reasons else (0, None))
        found.answer()
        for qos, refuse, text in (
            (1, wire.puback, block((0x26, ("a", "b")), (0x1F, "not authorized"))),
            (2, wire.pubrec, NONE),
        ):
            mid = found.publish(b"x", qos)
            found.sent()
            found.feed(refuse(mid, 0x87, text))
        eq([(error.code, error.reason) for error in found.notices], [(0x87, "not authorized"), (0x87, "")])
        assert "not authorized" in str(found.notices[0])


def test_longest_packet():
    """[MQTT5-3.1.2-24] [MQTT5-4.13.1-1] A packet of max_packet bytes comes in pieces; a longer one is an error of the
    broker, which is told."""
    for excess in (0, 1):
        found = peer(max_packet=2000)
        found.up()
        raw = wire.publish("t", b"x" * (2000 + excess - 7), properties=NONE)
        eq(len(raw), 2000 + excess)
        if excess:
            eq(raises(ProtocolError, found.feed, raw).reason_code, 0x95)
        else:
            found.feed(raw)
        eq(sum([len(payload) for payload, _ in found.got]), 0 if excess else 1993)


def test_bad_arguments():
    raises(ValueError, connect_properties, 4096, True)
    for user in (("ab", "cd"), [("a", "x" * 120)], [("\0", "x")]):
        raises(ValueError, connect_properties, None, False, False, user)
    for given, options in (
        (connect_properties(max_packet=511), {}),  # less than half the buffer
        (b"\x19\x01", {}),
        (connect_properties(reasons=True), {"protocol_level": 4}),
        (connect_properties(user=[("a", "x" * 100)]), {"buffer": bytearray(256)}),
    ):
        options["connect_properties"] = given
        options.setdefault("protocol_level", 5)
        raises(ValueError, lambda options=options: Client("h", "dev", **options))
    client = Client("h", "dev", protocol_level=5, connect_properties=connect_properties(max_packet=512))
    eq(client.session.maximum_in, 512)
