# Level 5: beginning and end of sessions, quota, reason codes, limits of the broker, the level of the journal.

from errno import ETIMEDOUT

from harness import allocated, eq, raises
from inflight.flash.flash import RamFlash
from inflight.level5.aliases5 import Aliases
from inflight.packet import ProtocolError
from inflight.session.refused import Disconnected, PublishRefused
from session_peer import Peer
from session_peer5 import NONE, Peer5, error_of
from tools.reference import wire
from tools.reference.kinds import DISCONNECT, PINGREQ, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBSCRIBE
from tools.reference.properties import block

EXPIRY, ASSIGNED, KEEP_ALIVE, RECEIVE_MAXIMUM, MAXIMUM_QOS, RETAIN, MAXIMUM = 0x11, 0x12, 0x13, 0x21, 0x24, 0x25, 0x27


CONNACK_CODES = b"\x00\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8c\x90\x95\x97\x99\x9a\x9b\x9c\x9d\x9f"
SUBACK_CODES = b"\x00\x01\x02\x80\x83\x87\x8f\x91\x97\x9e\xa1\xa2"
UNSUBACK_CODES = b"\x00\x11\x80\x83\x87\x8f\x91"
DISCONNECT_CODES = b"\x00\x80\x81\x82\x83\x87\x89\x8b\x8d\x8e\x8f\x90\x93\x94\x95\x96\x97\x98\x99\x9a\x9b\x9c"
DISCONNECT_CODES += b"\x9d\x9e\x9f\xa0\xa1\xa2"


def brief(packets):
    """[(kind, Message ID, DUP)]"""
    return [(p.kind, p.mid, p.dup) for p in packets]


def error_after_connack(data):
    return error_of(Peer5.connected(), data)


# --- the beginning ---


def test_connect():
    """[MQTT5-3.1.0-1] [MQTT5-3.1.2-1] [MQTT5-3.3.2-10] [MQTT5-3.1.2-4] [MQTT5-3.1.2-23] [MQTT5-3.1.3-1] [MQTT5-3.1.3-3]
    What CONNECT says: a session that does not end, how much it receives, and no text in acknowledgements."""
    p = Peer5(receive_maximum=7, session_expiry=3600).call()
    eq((p.name, p.level, p.clean, p.keepalive, p.client_id), (b"MQTT", 5, False, 60, "dev"))
    eq(sorted(p.properties), [(0x11, 3600), (0x17, 0), (0x21, 7)])
    eq(dict(Peer5().call().properties)[0x11], 0xFFFFFFFF)
    p = Peer5().call(clean=True)
    eq((p.clean, dict(p.properties).get(0x11)), (True, None))


def test_connect_with_a_will_and_a_password():
    """[MQTT5-3.1.0-2] [MQTT5-3.1.2-3] [MQTT5-3.1.2-9] [MQTT5-3.1.2-11] [MQTT5-3.1.2-13] [MQTT5-3.1.2-16]
    [MQTT5-3.1.2-17] [MQTT5-3.1.2-18] [MQTT5-3.1.2-19] [MQTT5-3.1.2-28] [MQTT5-3.1.3-1] [MQTT5-3.1.3-12] Each has its
    flag; the properties of the will stand in front of its topic; a password needs no user name. Response Information
    that nobody asked for is passed over. It is the only CONNECT."""
    for user, password, flags in (
        (None, None, 0),
        (b"me", None, 0x80),
        (b"me", b"\xff\0", 0xC0),
        (None, b"token", 0x40),
    ):
        for will in (None, (b"w", b"gone", 1, True, block((0x03, "t"), (0x18, 90)))):
            peer = Peer5()
            peer.session.connect(0, False, 30, user, password, will)
            (p,) = peer.sent()
            eq(p.raw[9], flags | (0x2C if will else 0))
            eq((p.user, p.password), (user and "me", password))
            eq(p.will, ("w", b"gone", 1, True) if will else None)
            eq(list(p.will_properties), [(0x03, "t"), (0x18, 90)] if will else [])
            eq(peer.answer(0, (0x1A, "response"), (0x22, 5), (0x26, ("a", "b"))), [])


def test_clean_start():
    """[MQTT5-3.1.2-4] [MQTT5-3.1.2-5] [MQTT5-3.1.3-2] [MQTT5-3.2.2-4] Not with a journal, unless the broker has a
    session that the journal does not know, and has it still after a DISCONNECT that ends it."""
    device = RamFlash()
    for peer in (Peer5(device), Peer5(device)):
        for _ in range(3):
            eq(peer.call().clean, False)
            peer.lose()  # no CONNACK came
            eq(peer.session.ending, 0)
    unknown(peer)
    eq(peer.call().clean, False)
    peer.answer(0)
    peer.up(1)
    peer.lose()
    eq(Peer5(device).up(1), [])
    device = RamFlash()
    Peer(device).up()
    eq(Peer5(device).up(1), [])  # it knows the session of level 4
    Peer(device).up(0, True)
    unknown(Peer5(device))  # that was a clean one: it is over
    peer = Peer5(RamFlash())
    unknown(peer)
    unknown(peer)
    eq(peer.call().clean, True)
    eq(error_of(peer, wire.connack(1, 0, NONE)), 0x82)
    eq(peer.call().clean, True)
    peer.answer(0)
    eq(peer.call().clean, False)


def unknown(peer):
    """The broker has a session; the client has none. Nothing of that session counts."""
    eq(peer.call().clean, False)
    peer.feed(wire.connack(1, 0, NONE))
    eq((peer.session.code, peer.session.connected, peer.count("connects")), (-1, False, 0))


def test_clean_start_without_a_journal():
    """[MQTT5-3.1.2-4] What is known is in RAM."""
    peer = Peer5()
    peer.session.journal = None
    eq(peer.call().clean, True)
    peer.answer()
    eq(peer.call().clean, False)


def test_connack_is_first():
    """[MQTT5-3.2.0-1] [MQTT5-3.2.0-2] [MQTT5-3.14.0-1] Nothing comes before it, and no other one behind it; nor AUTH
    that was not asked for [MQTT5-4.12.0-6], or its method in CONNACK."""
    for data in (wire.pingresp(), wire.disconnect(0x8B), wire.puback(1), wire.publish("t", properties=NONE)):
        peer = Peer5.calling()
        eq(error_of(peer, data), 0x82)
    method = block((0x15, "m"))
    for data in (wire.connack(0, 0, NONE), wire.auth(0x18, method)):
        eq(error_after_connack(data), 0x82)
    eq(error_of(Peer5.calling(), wire.connack(0, 0, method)), 0x82)


def test_connack_flags_and_codes():
    """[MQTT5-3.1.3-8] [MQTT5-3.1.4-5] [MQTT5-3.2.2-1] [MQTT5-3.2.2-2] [MQTT5-3.2.2-4] [MQTT5-3.2.2-6] [MQTT5-3.2.2-8]
    [MQTT5-3.2.2-12] [MQTT5-3.2.2-13] Those that the standard has."""
    for code in CONNACK_CODES:
        peer = Peer5.calling()
        peer.feed(wire.connack(0, code, NONE))
        eq((peer.session.code, peer.session.connected), (code, not code))
        eq(peer.count("refused"), 1 if code else 0)
    for present, code in ((0, 1), (0, 5), (0, 0x7F), (1, 0)):
        peer = Peer5.calling(clean=True)
        eq(error_of(peer, wire.connack(present, code, NONE)), 0x82)
    for flags in (2, 0x80, 0xFF):
        peer = Peer5.calling()
        eq(error_of(peer, wire.connack(flags, 0, NONE)), 0x81)


def test_a_refusal_is_one_whatever_else_it_says():
    """[MQTT5-3.2.2-6] [MQTT5-3.2.2-7] With session present, a code that the standard has not, or properties that break
    its rules: the application gets the code."""
    method = block((0x15, "m"))
    answers = [(1, 0x87, NONE), (0x80, 0x87, NONE), (0, 0x8B, NONE), (0, 0xFF, NONE), (1, 0x95, method)]
    # Without the length of properties; fewer bytes than it tells; ill-formed; unknown; bytes behind them.
    rests = [b"", b"\x05\x1f\x00", b"\x03\x1f\x00\x01\xff", b"\x02\x99\x00", NONE + b"behind"]
    for rest in rests + [block((0x1F, "not you"), (0x26, ("a", "b")))]:
        answers.append((0, 0x87, rest))
    for flags, code, rest in answers:
        peer = Peer5.connected()
        peer.lose()
        peer.call()
        eq(peer.feed(wire.packet(0x20, bytes([flags, code]) + rest)), [])
        eq((peer.session.code, peer.session.present, peer.session.connected), (code, False, False))
        eq((peer.count("refused"), peer.session.reason), (1, "not you" if b"not" in rest else ""))


def test_a_broker_of_level_4():
    """[MQTT5-3.1.2-2] Its CONNACK has no properties: its return codes are told as those of level 5."""
    for code, told in ((1, 0x84), (2, 0x85), (3, 0x88), (4, 0x86), (5, 0x87)):
        peer = Peer5.calling()
        peer.feed(wire.connack(0, code))
        eq((peer.session.code, peer.session.connected), (told, False))
    for present, code in ((0, 0), (1, 0), (0, 6)):
        peer = Peer5.calling()
        error = raises(ProtocolError, peer.feed, wire.connack(present, code))
        eq("session present %d, code" % present in str(error), True)


def test_session_expiry():
    """[MQTT5-3.1.2-23] The broker may shorten it."""
    peer = Peer5.connected(session_expiry=100)
    eq(peer.session.expiry, 100)
    peer.up(1, False, (EXPIRY, 60))
    eq(peer.session.expiry, 60)
    peer.up(1)
    eq(peer.session.expiry, 100)
    peer.up(0, True)
    eq(peer.session.expiry, 0)


def test_server_keep_alive():
    """[MQTT5-3.1.2-20] [MQTT5-3.1.2-21] [MQTT5-3.2.2-21] It rules this connection: shorter, longer, none; the next one
    begins with the client's own again."""
    peer = Peer5(keepalive=60 * 750)
    for seconds, due in ((10, 7500), (100, 75000), (None, 45000)):
        announced = () if seconds is None else ((KEEP_ALIVE, seconds),)
        eq(peer.call().keepalive, 60)
        peer.answer(1 if peer.session.known else 0, *announced)
        start = peer.now
        peer.now = start + due - 1
        eq(peer.sent(), [])
        peer.now = start + due
        eq([p.kind for p in peer.sent()], [PINGREQ])
        peer.lose()
    assert peer.session.tick <= 1000
    peer.up(1, False, (KEEP_ALIVE, 0))
    peer.now += 1_000_000
    eq(peer.sent(), [])


class Nameless(Peer5):
    client_id = b""


def test_assigned_client_id():
    """[MQTT5-3.1.3-2] [MQTT5-3.1.3-7] [MQTT5-3.2.2-16] The journal keeps it, before the first message leaves."""
    device = RamFlash()
    peer = Nameless(device, adopt=True)
    eq(peer.call().client_id, "")
    peer.publish(b"x")
    eq(brief(peer.answer(0, (ASSIGNED, "auto-7"))), [(PUBLISH, 1, False)])
    peer.lose()
    eq((peer.call().client_id, peer.session.clean_start), ("auto-7", False))
    peer = Nameless(device, adopt=True)
    eq(peer.call().client_id, "auto-7")
    eq(brief(peer.answer(1)), [(PUBLISH, 1, True)])
    raises(ValueError, Peer5, device)
    peer = Nameless.calling(adopt=True)
    eq(error_of(peer, wire.connack(0, 0, NONE)), 0x82)


def test_assigned_client_id_of_no_use():
    """[MQTT5-3.1.3-7] One that is empty, or too long for the next CONNECT or for the journal, beside the ids that the
    broker was told of, ends the connection, and is not kept."""
    for buffer, size, wrong in ((256, 256, 0), (256, 256, 100), (256, 4096, 101), (2048, 4096, 337)):
        device = RamFlash(8, size)
        peer = Peer5.calling(device, buffer, adopt=True)
        eq(error_of(peer, wire.connack(0, 0, block((ASSIGNED, "x" * wrong)))), 0x82)
        peer.lose()
        eq(peer.call().client_id, "")
        eq(Peer5(device, buffer, adopt=True).call().client_id, "")
    for buffer, n in ((256, 100), (2048, 336)):
        peer = Peer5.calling(RamFlash(8, 4096), buffer, adopt=True)
        peer.answer(0, (ASSIGNED, "x" * n))
        peer.lose()
        eq(len(peer.call().client_id), n)


def test_power_cut_while_an_assigned_client_id_is_kept():
    """A clean session without an id has used the journal before. The next start has one of both ids, and the
    message."""

    class Cut(RamFlash):
        volatile = False
        left = -1

        def program(self, *of):
            if self.left == 0:
                raise OSError("cut")
            self.left -= 1
            super().program(*of)

    cuts = 0
    while True:
        device = Cut(8, 1024)
        peer = Nameless(device)
        peer.up(0, True, (ASSIGNED, "for this connection"))
        peer.lose()
        peer.publish(b"x")
        peer = Nameless(device, adopt=True)
        device.left = cuts
        try:
            peer.up(0, False, (ASSIGNED, "auto-7"))
        except OSError:
            pass
        whole = device.left > 0
        device.left = -1
        peer = Nameless(device, adopt=True)
        eq((peer.call().client_id in ("", "auto-7"), peer.session.pending), (True, 1))
        cuts += 1
        if whole:
            break
    assert cuts > 5


# --- sessions that the broker keeps, or not ---


def in_flight(restart):
    """A peer with a message in each state: waits for PUBACK, for PUBREC, for PUBCOMP; a fourth was never sent. restart:
    after a power cut."""
    device = RamFlash()
    peer = Peer5.connected(device, max_inflight=3)
    for qos, payload in ((1, b"one"), (2, b"two"), (2, b"three"), (1, b"four")):
        peer.publish(payload, qos)
    eq(brief(peer.sent()), [(PUBLISH, 1, False), (PUBLISH, 2, False), (PUBLISH, 3, False)])
    eq(brief(peer.feed(wire.pubrec(3))), [(PUBREL, 3, False)])
    return Peer5(device, max_inflight=3) if restart else peer


def test_session_present():
    """[MQTT5-3.3.1-1] [MQTT5-4.3.3-5] [MQTT5-4.3.3-6] [MQTT5-4.4.0-1] [MQTT5-4.6.0-1] Everything goes on, with its ids
    and DUP, in order; after a power cut as well."""
    for restart in (False, True):
        peer = in_flight(restart)
        eq(brief(peer.up(1)), [(PUBLISH, 1, True), (PUBLISH, 2, True), (PUBREL, 3, False)])
        eq(
            brief(peer.feed(wire.puback(1) + wire.pubrec(2) + wire.pubcomp(2) + wire.pubcomp(3))),
            [(PUBLISH, 4, False), (PUBREL, 2, False)],
        )
        eq(peer.count("republished") + peer.count("orphaned"), 0)


def test_pubrels_in_order():
    """[MQTT5-3.6.1-1] [MQTT5-3.6.2-2] [MQTT5-3.6.2-3] [MQTT5-4.6.0-4] In that of the PUBRECs, without properties."""
    peer = Peer5.connected()
    peer.publish_numbers(4, 2)
    peer.sent()
    found = peer.feed(b"".join([wire.pubrec(mid) for mid in (3, 1, 4, 2)]))
    eq([p.raw for p in found], [wire.pubrel(mid) for mid in (3, 1, 4, 2)])


def test_session_lost():
    """[MQTT5-3.2.2-5] [MQTT5-3.3.1-1] [MQTT5-4.3.2-2] [MQTT5-4.3.3-2] The broker has none: what it has not taken is
    published anew, without DUP; what it has taken is done."""
    for restart in (False, True):
        peer = in_flight(restart)
        found = peer.up(0)
        eq(brief(found), [(PUBLISH, 1, False), (PUBLISH, 2, False), (PUBLISH, 4, False)])
        eq([p.payload for p in found], [b"one", b"two", b"four"])
        eq((list(peer.session.ended), peer.count("orphaned"), peer.count("completed")), ([3], 1, 1))
        eq(peer.count("republished"), 2)
        peer.feed(wire.puback(1) + wire.pubrec(2) + wire.pubcomp(2) + wire.puback(4))
        eq(peer.session.pending, 0)


def test_session_lost_forgets_received_ids():
    """[MQTT5-3.2.2-5] [MQTT5-4.3.3-12] The id of a message that was received is that of a new one."""
    peer = Peer5.connected()
    peer.feed(wire.publish("t", b"a", 2, 5, properties=NONE))
    peer.lose()
    peer.up(1)
    peer.feed(wire.publish("t", b"a", 2, 5, 1, properties=NONE))
    peer.lose()
    peer.up(0)
    peer.feed(wire.publish("t", b"b", 2, 5, properties=NONE))
    eq(peer.got, [(b"a", False), (b"b", False)])


def test_levels_change():
    """[MQTT5-4.1.0-1] Messages are in flight, and the next life of the device has another level."""
    for first, second in ((Peer, Peer5), (Peer5, Peer), (Peer5, Peer5)):
        for sizes in ((3, 4, 5), (112, 113, 114), (115, 116, 117)):
            device = RamFlash()
            peer = first(device, 512, max_inflight=3)
            peer.up()
            for k, n in enumerate(sizes):
                peer.publish(bytes([65 + k]) * n, 1 + k % 2, b"topic/name")
            peer.sent()
            again = second(device, 512, max_inflight=3).up(1)
            parsed = [p if second is Peer5 else wire.parse(p) for p in again]
            eq(brief(parsed), [(PUBLISH, k + 1, True) for k in range(3)])
            eq(
                [(p.topic, p.payload, p.qos) for p in parsed],
                [("topic/name", bytes([65 + k]) * n, 1 + k % 2) for k, n in enumerate(sizes)],
            )


# --- quota ---


def test_quota():
    """[MQTT5-3.3.4-7] [MQTT5-3.3.4-8] [MQTT5-4.9.0-1] [MQTT5-4.9.0-2] [MQTT5-4.9.0-3] Both QoS share it; PUBACK,
    PUBCOMP and a PUBREC that refuses end one. An unknown PUBACK ends none. All else goes on."""
    peer = Peer5(max_inflight=8)
    peer.up(0, False, (RECEIVE_MAXIMUM, 2))
    for k in range(8):
        peer.publish(b"%d" % k, 1 + k % 2)
    eq(brief(peer.sent()), [(PUBLISH, 1, False), (PUBLISH, 2, False)])
    eq(peer.feed(wire.puback(77)), [])
    eq(brief(peer.feed(wire.pubrec(2))), [(PUBREL, 2, False)])
    peer.publish(b"qos 0", 0)
    peer.session.subscribe([b"t"], [1])
    eq([p.kind for p in peer.sent()], [PUBLISH, SUBSCRIBE])
    eq(brief(peer.feed(wire.publish("t", b"in", 2, 9, properties=NONE))), [(PUBREC, 9, False)])
    eq(brief(peer.feed(wire.pubcomp(2))), [(PUBLISH, 3, False)])
    eq(brief(peer.feed(wire.puback(1))), [(PUBLISH, 4, False)])
    eq(brief(peer.feed(wire.pubrec(4, 0x87))), [(PUBLISH, 5, False)])
    eq(peer.count("unknown_acks"), 1)


def test_quota_of_the_next_connection():
    """[MQTT5-3.3.4-7] [MQTT5-3.3.4-8] [MQTT5-4.9.0-1] A smaller one, then none: it is not that of the last connection.
    A PUBREL behind a message that waits does not wait."""
    peer = Peer5.connected(max_inflight=4)
    peer.publish_numbers(4, 2)
    eq(len(peer.sent()), 4)
    peer.feed(wire.pubrec(3))
    eq(brief(peer.up(1, False, (RECEIVE_MAXIMUM, 1))), [(PUBLISH, 1, True), (PUBREL, 3, False)])
    eq(brief(peer.feed(wire.pubcomp(3))), [])
    eq(brief(peer.feed(wire.pubrec(1) + wire.pubcomp(1))), [(PUBREL, 1, False), (PUBLISH, 2, True)])
    eq(len(peer.up(1)), 2)


# --- reason codes ---


def test_refused():
    """[MQTT5-3.4.2-1] [MQTT5-3.5.2-1] [MQTT5-4.3.3-4] [MQTT5-4.4.0-2] The message is done, counted and told; no PUBREL
    follows, and nothing comes again."""
    device = RamFlash()
    for qos, make in ((1, wire.puback), (2, wire.pubrec)):
        for code in (0x80, 0x83, 0x87, 0x90, 0x99, 0xFF):
            peer = Peer5(device)
            peer.up(1 if peer.session.record_at >= 0 else 0)
            seq = peer.session.journal.next_seq
            mid = peer.publish(b"x", qos)
            peer.sent()
            eq(peer.feed(make(mid, code, block((0x1F, "why")))), [])
            eq(peer.session.pending, 0)
            (told,) = peer.notices
            assert isinstance(told, PublishRefused)
            eq((told.code, told.mid, told.seq), (code, mid, seq))
            eq((peer.count("rejected"), peer.count("dropped"), peer.count("completed")), (1, 1, 0))
            eq(Peer5(device).up(1), [])


def test_nobody_listens():
    """[MQTT5-3.4.2-1] Code 10 is no error."""
    peer = Peer5.connected()
    peer.publish(b"x", 1)
    peer.send(b"y", 2)
    eq(brief(peer.feed(wire.puback(1, 0x10) + wire.pubrec(2, 0x10) + wire.pubcomp(2))), [(PUBREL, 2, False)])
    eq((peer.count("unheard"), peer.count("completed"), peer.notices), (2, 2, ()))


def test_quota_exceeded():
    """[MQTT5-4.3.3-4] [MQTT5-4.4.0-2] The message is sent again as a new one, when a pause is over that grows; others
    wait, so order is kept."""
    peer = Peer5.connected(max_inflight=2)
    for k in range(3):
        peer.publish(b"%d" % k, 1 + k % 2)
    peer.sent()
    eq(peer.feed(wire.puback(1, 0x97) + wire.pubrec(2, 0x93)), [])
    eq((peer.count("held"), peer.notices), (2, ()))
    for pause in (1000, 2000, 4000):
        peer.now += pause - 1
        eq(peer.sent(), [])
        peer.now += 1
        eq(brief(peer.sent()), [(PUBLISH, 1, False), (PUBLISH, 2, False)])
        eq(peer.feed(wire.puback(1, 0x97) + wire.pubrec(2, 0x97)), [])
    peer.now += 8000
    eq(len(peer.sent()), 2)
    eq(brief(peer.feed(wire.puback(1))), [(PUBLISH, 3, False)])


def test_id_in_use():
    """[MQTT5-2.2.1-3] The two sessions disagree: that of the broker ends, the message stays."""
    peer = Peer5.connected()
    peer.send(b"x", 2)
    eq(error_of(peer, wire.pubrec(1, 0x91)), 0x82)
    peer.lose()
    eq(peer.call().clean, True)
    eq(brief(peer.answer()), [(PUBLISH, 1, False)])
    peer.lose()
    eq(peer.call().clean, False)


def test_failures_out_of_place():
    """[MQTT5-4.3.3-6] A refusal of another state is a protocol error; of an unknown id, it is counted."""
    for qos, data in ((1, wire.pubrec(1, 0x87)), (2, wire.puback(1, 0x87)), (1, wire.pubrec(1)), (2, wire.puback(1))):
        peer = Peer5.connected()
        peer.send(b"x", qos)
        eq(error_of(peer, data), 0x82)
    peer = Peer5.connected()
    eq(peer.feed(wire.puback(5, 0x87) + wire.pubrec(6, 0x87)), [])
    eq((peer.count("unknown_acks"), peer.count("rejected")), (2, 0))


def test_ids_that_are_unknown():
    """[MQTT5-4.3.3-11] PUBREL and PUBREC of an unknown id are answered with 92; a PUBCOMP with 92 ends the exchange."""
    peer = Peer5.connected()
    found = peer.feed(wire.pubrec(9) + wire.pubrel(8) + wire.pubrel(7, 0, 0x92))
    eq([(p.kind, p.mid, p.code) for p in found], [(PUBREL, 9, 0x92), (PUBCOMP, 8, 0x92), (PUBCOMP, 7, 0x92)])
    peer.feed(wire.publish("t", b"x", 2, 8, properties=NONE))
    eq([(p.kind, p.code) for p in peer.feed(wire.pubrel(8))], [(PUBCOMP, 0)])
    peer.send(b"y", 2)
    peer.feed(wire.pubrec(1) + wire.pubcomp(1, 0x92))
    eq(peer.session.pending, 0)


# --- an acknowledgement that does not come ---


def stalling(qos=1, **options):
    """A peer with a message that was sent, whose next PINGRESP comes in good time."""
    found = Peer5.connected(stall_ms=60_000, **options)
    found.publish(b"x", qos)
    eq([p.kind for p in found.sent()], [PUBLISH])
    idle(found)
    return found


def idle(found):
    """The session looks at its oldest message once in a second."""
    found.now += 1024
    eq(found.sent(), [])


def waits(found, ms):
    """Nothing is sent for `ms`, then a PINGREQ."""
    found.now += ms - 2048
    eq(found.sent(), [])
    found.now += 4096
    eq([p.kind for p in found.sent()], [PINGREQ])


def test_stalled():
    """[MQTT5-4.4.0-1] Each acknowledgement: when the broker has answered a PINGREQ instead, the connection ends, and
    the packet comes again on the next one. Without progress it takes twice as long each time."""
    for qos, before, again in ((1, b"", PUBLISH), (2, b"", PUBLISH), (2, wire.pubrec(1), PUBREL)):
        found = stalling(qos)
        found.feed(before)
        idle(found)
        for k, ms in enumerate((60_000, 120_000, 240_000)):
            waits(found, ms)
            error = raises(OSError, found.feed, wire.pingresp())
            eq((error.args[0], found.count("stalls"), found.session.busy), (ETIMEDOUT, k + 1, False))
            found.lose()
            eq([p.kind for p in found.up(1)], [again])
            idle(found)
        found.feed(wire.puback(1) if qos == 1 else wire.pubrec(1) + wire.pubcomp(1))
        found.send(b"y")
        idle(found)
        waits(found, 60_000)


def test_no_packet_but_those_that_are_allowed():
    """[MQTT5-3.1.2-30] [MQTT5-3.14.4-1] However long a message waits: none between CONNECT and CONNACK, which may take
    a dialogue of authentication, and none behind DISCONNECT."""
    found = stalling()
    found.lose()
    found.call()
    idle(found)
    found.now += 61_000
    eq(found.sent(), [])
    eq([p.kind for p in found.answer(1)], [PUBLISH])
    idle(found)
    found.now += 61_000
    found.session.disconnect()
    eq([p.kind for p in found.sent()], [DISCONNECT])


def test_it_came_before_the_pingresp():
    """Whatever the client did for so long: what the broker has sent counts first."""
    found = stalling()
    found.now += 600_000
    eq([p.kind for p in found.sent()], [PINGREQ])
    eq(found.feed(wire.puback(1) + wire.pingresp()), [])
    found.send(b"y", 2)
    idle(found)
    waits(found, 60_000)
    eq([p.kind for p in found.feed(wire.pubrec(2) + wire.pingresp())], [PUBREL])
    idle(found)
    eq(found.count("stalls"), 0)


def test_one_of_many_is_stalled():
    """[MQTT5-4.4.0-1] Others are acknowledged all the time."""
    found = stalling()
    for k in range(11):
        found.now += 5000
        mid = found.publish(b"%d" % k)
        eq([p.kind for p in found.sent() if p.mid], [PUBLISH])
        found.feed(wire.puback(mid))
    found.now += 6000
    eq([p.kind for p in found.sent()], [PINGREQ])
    raises(OSError, found.feed, wire.pingresp())


def test_what_does_not_wait_for_the_broker_is_not_stalled():
    """Messages that are not sent: the broker takes none, or wants a pause. And if nobody wants to know."""
    found = Peer5(stall_ms=60_000)
    found.publish(b"x")
    found.up(0, False, (MAXIMUM_QOS, 0))
    for _ in range(100):
        found.now += 10_000
        eq(found.sent(), [])
    found = Peer5.connected(stall_ms=0)
    found.send(b"x")
    for _ in range(100):
        found.now += 10_000
        eq(found.sent(), [])


# --- what the broker does not take ---


def test_maximum_qos():
    """[MQTT5-3.2.2-11] QoS 2 goes out at QoS 1, told once for a connection; another broker gets QoS 2 again."""
    device = RamFlash()
    peer = Peer5(device)
    peer.publish(b"a", 2)
    (p,) = peer.up(0, False, (MAXIMUM_QOS, 1))
    eq((p.qos, p.mid), (1, 1))
    eq(peer.feed(wire.puback(1)), [])
    for payload in (b"b", b"c"):
        peer.publish(payload, 2)
        (p,) = peer.sent()
        eq((p.qos, p.payload), (1, payload))
    eq((peer.count("lowered"), len(peer.notices), peer.session.pending), (3, 1, 2))
    peer = Peer5(device)
    eq([p.qos for p in peer.up(1)], [2, 2])


def test_what_never_left_is_known_after_a_restart():
    """[MQTT5-3.3.1-1] [MQTT5-3.1.2-4] [MQTT5-3.2.2-11] A broker that takes QoS 0 only has seen none of these messages:
    the next one gets them as new ones, also if its session is a clean one, which discards what may have left."""
    messages = (b"a", b"b")
    for clean, offline in ((False, 0), (False, 1), (True, 0), (True, 1)):
        device = RamFlash()
        peer = Peer5(device)
        peer.up(0, clean)  # a broker that takes messages: one may have left
        peer.lose()
        for payload in messages[:offline]:
            peer.publish(payload)
        eq(peer.up(0, clean, (MAXIMUM_QOS, 0)), [])
        for payload in messages[offline:]:
            peer.publish(payload)
        eq((peer.sent(), len(peer.notices)), ([], 1))
        found = Peer5(device).up(0, clean)
        eq([(p.payload, p.dup) for p in found], [(payload, False) for payload in messages])


def test_retain_available():
    """[MQTT5-3.2.2-14] [MQTT5-3.3.1-6] RETAIN is cleared, at each QoS, and not in the journal. An empty payload may be
    retained."""
    device = RamFlash()
    peer = Peer5(device)
    peer.up(0, False, (RETAIN, 0))
    for qos in range(3):
        for _ in range(2):
            peer.publish(b"x", qos, retain=True)
            (p,) = peer.sent()
            eq((p.retain, p.qos), (False, qos))
    eq((peer.count("lowered"), peer.feed(wire.pingresp()), len(peer.notices)), (6, [], 1))
    peer = Peer5(device)
    eq([p.retain for p in peer.up(1)], [True] * 4)
    peer.publish(b"", 0, retain=True)
    eq([(p.retain, p.payload) for p in peer.sent()], [(True, b"")])


def test_maximum_packet_size():
    """[MQTT5-3.2.2-15] [MQTT5-2.2.1-3] What is longer is refused before it is in the journal, and takes no Message ID,
    no sequence number and nothing of the quota; offline nobody knows."""
    peer = Peer5(buffer=512)
    peer.up(0, False, (MAXIMUM, 30), (RECEIVE_MAXIMUM, 1))
    numbers = peer.session.journal.next_seq, peer.session.last_mid
    for qos, most in ((0, 24), (1, 22), (2, 22)):
        for _ in range(2):  # also if the PUBLISH stands there
            error = raises(ValueError, peer.publish, bytes(most + 1), qos)
            assert "30" in str(error), error
            eq((peer.session.pending, peer.sent()), (0, []))
            eq((peer.session.journal.next_seq, peer.session.last_mid), numbers)
        peer.publish(bytes(most), qos)
        numbers = peer.session.journal.next_seq, peer.session.last_mid
        (p,) = peer.sent()
        eq(len(p.raw), 30)
        peer.feed(b"" if not qos else wire.puback(p.mid) if qos == 1 else wire.pubrec(p.mid) + wire.pubcomp(p.mid))
    peer.lose()
    peer.publish(bytes(100))
    eq(len(peer.up(1)[0].raw), 108)


def test_journal_with_messages_that_are_too_long():
    """[MQTT5-3.2.2-15] [MQTT5-3.3.1-1] In flight or waiting, they are set aside, counted and told once; the others go,
    in order. A connection that takes them gets them with their Message IDs, and DUP if they were sent before."""
    for sizes in ((10, 200, 11, 201, 12), (200, 201, 202, 10, 11), (10, 10, 10, 10, 200), (200, 200, 200, 200, 200)):
        device = RamFlash(4, 4096)
        peer = Peer5.connected(device, max_inflight=2)
        for n in sizes:
            peer.publish(bytes(n))
        peer.sent()
        for _ in range(2):
            peer.lose()
            found = all_sent(peer, peer.up(1, False, (MAXIMUM, 100)))
            left = [k for k, n in enumerate(sizes) if n < 100]
            eq([p.mid for p in found], [k + 1 for k in left] if peer.count("connects") == 2 else [])
        aside = [k for k, n in enumerate(sizes) if n > 100]
        eq((peer.count("set_aside"), peer.count("dropped"), peer.session.pending), (len(aside), 0, len(aside)))
        eq(
            [(e.code, e.kept, e.mid, e.seq, e.topic) for e in peer.notices],
            [(0x95, True, k + 1, k, "t") for k in aside],
        )
        eq([e.size for e in peer.notices], [sizes[k] + 9 for k in aside])
        peer.lose()
        found = all_sent(peer, peer.up(1))
        eq([(p.mid, p.dup) for p in found], [(k + 1, k < 2) for k in aside])
        eq((peer.session.pending, peer.count("set_aside")), (0, len(aside)))


def all_sent(peer, found):
    """What is sent when each message is acknowledged at once."""
    for p in found:
        found += peer.feed(wire.puback(p.mid))
    return found


def test_more_messages_that_are_too_long():
    """The application is told of each, of a few at a time, so that their number takes no memory. A message that is
    accepted meanwhile waits for its turn, though the window has space."""
    flash = RamFlash(8, 4096)
    peer = Peer5(flash)
    for k in range(100):
        peer.publish(bytes(100) if k % 10 else b"short")
    found = peer.up(0, False, (MAXIMUM, 100))
    peer.publish(b"short")
    told = []
    left = []
    while peer.notices or found:
        assert len(peer.notices) < 20
        told += [e.mid for e in peer.notices]
        peer.session.notices = ()
        left += [p.mid for p in all_sent(peer, found)]
        found = peer.sent()
    eq(told, [k + 1 for k in range(100) if k % 10])
    eq(left, [k + 1 for k in range(101) if not k % 10])
    eq((peer.count("set_aside"), peer.count("completed"), peer.session.pending), (90, 11, 90))
    again = Peer5(flash)
    eq([p.mid for p in all_sent(again, again.up(1))], told)


def too_large(found):
    """The broker ends the connection with 95."""
    error = raises(Disconnected, found.feed, wire.disconnect(0x95))
    eq(error.code, 0x95)
    found.session.connection_lost(None, error)


def test_a_packet_was_too_large():
    """[MQTT5-3.2.2-15] The broker did not say how long one may be: the longest message of the connection is set aside
    and told, the others go on. Its Message ID stays in use. After a restart it is set aside, too."""
    for qos in (1, 2):
        for sizes in ((5, 300, 20, 30), (300, 5, 20, 301), (5, 20, 30, 300)):
            device = RamFlash(4, 4096)
            found = Peer5.connected(device, max_inflight=4)
            seq = [found.session.journal.next_seq + k for k in range(4)]
            for n in sizes:
                found.publish(bytes(n), qos)
            found.sent()
            too_large(found)
            k = sizes.index(max(sizes))
            sent = found.up(1)
            eq([len(p.payload) for p in sent if p.kind == PUBLISH], [n for n in sizes if n != max(sizes)])
            eq([p.mid for p in sent if p.kind == PUBREL], [])
            found.feed(wire.pingresp())
            eq([(e.code, e.mid, e.seq) for e in found.notices], [(0x95, k + 1, seq[k])])
            eq((found.count("set_aside"), found.count("dropped"), found.session.pending), (1, 0, 4))
            left = [(PUBLISH, mid, True) for mid in (1, 2, 3, 4) if mid != k + 1]
            eq(brief(Peer5(device, max_inflight=4).up(1)), left)


def test_another_packet_was_too_large():
    """It is not known that a message was too long: a longer one was of QoS 0, the broker has taken it, or a SUBSCRIBE
    was longer. Nothing is set aside; a message that comes again is the longest at some time."""

    def qos_0(found):
        found.publish(bytes(300), 0)

    def taken(found):
        found.send(bytes(300), 2)
        found.feed(wire.pubrec(2))

    def subscribe(found):
        found.session.subscribe([b"x" * 100], [1])

    for longer in (qos_0, taken, subscribe):
        found = Peer5.connected(RamFlash(4, 4096), 512)
        found.publish(bytes(30))
        longer(found)
        found.sent()
        too_large(found)
        eq(found.count("set_aside"), 0)
        found.up(1)
        too_large(found)
        eq(found.count("set_aside"), 1)


def test_a_message_past_pubrec_is_not_too_long():
    """[MQTT5-4.3.3-6] Its PUBREL goes."""
    peer = Peer5.connected()
    peer.send(bytes(200), 2)
    peer.feed(wire.pubrec(1))
    peer.lose()
    eq(brief(peer.up(1, False, (MAXIMUM, 20))), [(PUBREL, 1, False)])


# --- what it receives ---


def test_receive_maximum():
    """[MQTT5-3.3.4-9] More messages of QoS 2 than CONNECT allows are an error; those of an earlier connection do not
    count."""
    device = RamFlash()
    peer = Peer5.connected(device, receive_maximum=2)
    for mid in (1, 2):
        peer.feed(wire.publish("t", b"x", 2, mid, properties=NONE))
    peer.feed(wire.publish("t", b"x", 2, 2, 1, properties=NONE))
    eq(error_of(peer, wire.publish("t", b"x", 2, 3, properties=NONE)), 0x93)
    peer = Peer5.connected(device, receive_maximum=2, present=1)
    for mid in (3, 4):
        peer.feed(wire.publish("t", b"x", 2, mid, properties=NONE))
    eq(error_of(peer, wire.publish("t", b"x", 2, 5, properties=NONE)), 0x93)


def received(found, *mids, dup=0):
    """The Message IDs of these QoS 2 messages that the application got."""
    before = len(found.got)
    for mid in mids:
        eq([p.kind for p in found.feed(wire.publish("t", b"%d" % mid, 2, mid, dup, properties=NONE))], [PUBREC])
    return [int(payload) for payload, _ in found.got[before:]]


def test_messages_that_come_again_are_not_the_oldest():
    """[MQTT5-4.3.3-10] The broker still has them: they stay known, however many others there are."""
    found = Peer5(receive_maximum=2)
    for first in (1, 3):
        found.up(1 if first > 1 else 0)
        received(found, first, first + 1)
        found.lose()
    found.up(1)
    eq(received(found, 1, dup=1), [])
    eq(received(found, 5), [5])
    eq(found.count("abandoned"), 1)  # 2
    eq([p.code for p in found.feed(wire.pubrel(1) + wire.pubrel(2) + wire.pubrel(5) + wire.pubrel(3))], [0, 0x92, 0, 0])
    eq(received(found, 1, 2), [1, 2])


def test_answers_to_messages():
    """[MQTT5-3.3.4-1] [MQTT5-3.4.2-2] [MQTT5-3.4.2-3] [MQTT5-3.5.2-2] [MQTT5-3.5.2-3] [MQTT5-3.7.2-2] [MQTT5-3.7.2-3]
    [MQTT5-4.3.3-9] [MQTT5-3.3.1-3] [MQTT5-4.3.2-4] [MQTT5-4.3.2-5] [MQTT5-4.3.3-8] [MQTT5-4.3.3-10] [MQTT5-4.5.0-2]
    [MQTT5-4.6.0-2] [MQTT5-4.6.0-3] In order, whether or not there is a handler; DUP says nothing. Without codes of
    failures and without properties."""
    peer = Peer5.connected()
    data = b""
    for mid in (4, 2, 9):
        data += wire.publish("t", b"1", 1, mid, properties=NONE) + wire.publish("t", b"2", 2, mid, properties=NONE)
    data += wire.publish("t", b"0", properties=NONE) + wire.publish("t", b"again", 1, 4, 1, properties=NONE)
    data += wire.publish("t", b"2", 2, 9, 0, properties=NONE)
    found = [(p.kind, p.mid, len(p.raw)) for p in peer.feed(data)]
    eq(found, [(kind, mid, 4) for mid in (4, 2, 9) for kind in (PUBACK, PUBREC)] + [(PUBACK, 4, 4), (PUBREC, 9, 4)])
    eq([(p.kind, p.mid, len(p.raw)) for p in peer.feed(wire.pubrel(9))], [(PUBCOMP, 9, 4)])
    eq(len(peer.got), 8)


# --- requests ---


REQUESTS = (  # what answers, QoS of the filters, codes of the answer; is it right?
    [(wire.suback, [1, 2], (0, code), True) for code in SUBACK_CODES]
    + [(wire.unsuback, None, (0, code), True) for code in UNSUBACK_CODES]
    + [(wire.suback, [1, 2], codes, False) for codes in ((0, 3), (0, 0x10), (0, 0x92), (0, 0xFF), (0,), (0, 0, 0))]
    + [(wire.unsuback, None, codes, False) for codes in ((0, 3), (0, 0x10), (0, 0x92), (0, 0xFF), (0,), (0, 0, 0))]
    + [(wire.suback, None, (0, 0), False), (wire.unsuback, [1, 2], (0, 0), False)]
)


def test_subscribe():
    """[MQTT5-3.8.1-1] [MQTT5-3.8.4-2] [MQTT5-3.8.4-6] [MQTT5-3.9.3-1] [MQTT5-3.9.3-2] [MQTT5-3.10.1-1] [MQTT5-3.11.3-1]
    [MQTT5-3.11.3-2] As many codes as filters, of those that there are; failures too."""
    for make, qos, codes, right in REQUESTS:
        peer = Peer5.connected()
        peer.session.subscribe([b"a", b"b"], qos)
        (p,) = peer.sent()
        eq((len(p.filters), p.properties), (2, []))
        answer = make(p.mid, *codes, properties=NONE)
        if right:
            peer.feed(answer)
            eq((peer.session.granted, peer.session.request), (bytes(codes), None))
        else:
            eq(error_of(peer, answer), 0x82)


# --- the end ---


def test_disconnect():
    """[MQTT5-3.14.2-1] [MQTT5-3.14.2-3] [MQTT5-3.14.2-4] [MQTT5-3.14.4-1] Without a code, and with one; then
    nothing."""
    for code, raw in ((0, b"\xe0\x00"), (0x04, b"\xe0\x01\x04"), (0x81, b"\xe0\x01\x81")):
        peer = Peer5.connected()
        peer.session.disconnect(code)
        eq([p.raw for p in peer.sent()], [raw])
        eq(peer.sent(), [])


def test_the_broker_disconnects():
    """[MQTT5-3.14.2-1] [MQTT5-4.13.2-1] Its code, text and server reference are told; others are errors."""
    for code in DISCONNECT_CODES:
        peer = Peer5.connected()
        error = raises(Disconnected, peer.feed, wire.disconnect(code, block((0x1F, "why"), (0x1C, "there"))))
        eq((error.code, error.reason, error.reference), (code, "why", "there"))
        eq((peer.session.busy, peer.count("taken_over")), (False, 1 if code == 0x8E else 0))
    for code in (1, 4, 0x84, 0x91, 0xFF):
        eq(error_after_connack(wire.disconnect(code)), 0x82)
    peer = Peer5.connected()
    eq(raises(Disconnected, peer.feed, b"\xe0\x00").code, 0)


def test_heap():
    """Messages cost nothing, whether they have properties and an alias, or there is none left for their topic."""
    peer = Peer5(RamFlash(4, 65536), 512)
    peer.session.aliases = Aliases(2)
    peer.up(0, False, (0x22, 4))
    s = peer.session
    payload = b"payload" * 9
    topics = (b"sensors/attic", b"sensors/cellar", b"sensors/garden")
    spare = bytearray(8)
    view = memoryview(spare)

    def exchange(k, properties):
        for qos in range(3):
            s.attach(properties, 0)
            s.name = topics[(k + qos) % 3]
            mid = s.publish(s.name, payload, qos, False)
            while s.data_to_send(0):
                pass
            for kind in (0x40,) if qos == 1 else (0x50, 0x70) if qos else ():
                spare[0] = kind
                spare[1] = 2
                spare[2] = mid >> 8
                spare[3] = mid & 0xFF
                for i in range(4):
                    s.into[i] = view[i]
                s.bytes_received(4, 0)
                while s.next_event(0):
                    s.completed = 0
                    while s.data_to_send(0):
                        pass

    def some(properties):
        for k in range(21):
            exchange(k, properties)

    for properties in (None, made(expiry=86400, content_type="t"), made(correlation=b"\0\xff", user=[("a", "b")])):
        eq(allocated(some, properties), 0)


# --- messages in the journal that this life cannot take as the one before ---


def test_the_id_of_a_message_that_is_too_long_after_a_reconnection():
    """[MQTT5-4.3.3-1] [MQTT5-4.3.3-6] The broker may hold it, so no other message gets it. When the application gives
    the message up, a PUBREL ends that; what was dropped is not completed as well."""
    for restart in (False, True):
        for left in (False, True):
            device = RamFlash()
            peer = Peer5.connected(device)
            peer.publish(bytes(100), 2)
            if left:
                peer.sent()
            peer.lose()
            if restart:
                peer = Peer5(device)
            eq(brief(peer.up(1, False, (MAXIMUM, 50))), [])
            peer.session.last_mid = 65535
            eq(peer.publish(b"next", 2), 2)
            eq(brief(peer.sent()), [(PUBLISH, 2, False)])
            eq(peer.session.discard_message(1), True)
            if left or restart:  # after a restart nobody knows that it did not leave
                eq(brief(peer.sent()), [(PUBREL, 1, False)])
                eq(peer.session.discard_message(1), False)
                eq(brief(peer.up(1, False, (MAXIMUM, 50))), [(PUBLISH, 2, True), (PUBREL, 1, False)])
                eq(peer.feed(wire.pubcomp(1, 0x92)), [])
            eq((peer.count("set_aside"), peer.count("dropped"), peer.count("completed")), (1, 1, 0))
            eq((peer.session.pending, peer.session.completed), (1, 0))


def test_a_message_that_was_given_up_ends_with_the_session():
    peer = Peer5.connected(RamFlash())
    peer.send(bytes(100), 2)
    peer.lose()
    peer.session.discard_message(1)
    eq(brief(peer.up(1)), [(PUBREL, 1, False)])
    eq(peer.up(0), [])
    eq((peer.session.pending, peer.count("orphaned"), peer.count("completed")), (0, 0, 0))


def test_a_buffer_that_is_too_small_for_what_waits():
    """It is said at once: otherwise nothing would ever leave. Nothing is lost."""
    for topic, properties in ((b"t" * 80, None), (b"t" * 10, made(user=[("k", "v" * 70)]))):
        device = RamFlash()
        peer = Peer5(device)
        peer.publish(b"x", 1, topic, False, properties)
        error = raises(ValueError, new_session, device, 128)
        needed = int(str(error).split()[1])
        raises(ValueError, new_session, device, needed - 2)
        session = new_session(device, needed)
        eq(session.pending, 1)
        peer = Peer5(device, needed)
        (p,) = peer.up()
        eq((p.topic.encode(), p.payload), (topic, b"x"))


def new_session(device, buffer):
    from inflight.client.base import new_session
    from inflight.journal.journal import Journal

    return new_session(None, False, 0, 0, Journal(device), bytearray(buffer), b"dev")


def made(**fields):
    from inflight.level5.properties5 import properties

    return properties(**fields)
