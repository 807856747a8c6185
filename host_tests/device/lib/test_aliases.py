# Topic aliases of messages that leave (level 5).

from harness import eq
from inflight.flash.flash import RamFlash
from inflight.level5.aliases5 import Aliases
from inflight.level5.properties5 import properties
from session_peer5 import Peer5
from tools.reference import wire
from tools.reference.kinds import PUBACK, PUBLISH, PUBREL
from tools.reference.server import Connection, Server

ALIAS = 0x23
LIMIT = (0x22, 4)
TOPICS = (b"sensors/attic", b"sensors/cellar", b"sensors/garden")


def peer(most=10, device=None, buffer=512, **options):
    found = Peer5(device or RamFlash(16, 4096), buffer, **options)
    found.session.aliases = Aliases(most)
    return found


def alias_of(p):
    return dict(p.properties).get(ALIAS)


def named(packets):
    """[(topic as it was sent, alias)] of PUBLISHs."""
    return [(p.topic, alias_of(p)) for p in packets if p.kind == PUBLISH]


def done(found, packets):
    """The broker completes these messages. Returns what is sent then."""
    more = []
    for p in packets:
        if p.kind == PUBLISH and p.qos:
            more += found.feed(wire.puback(p.mid) if p.qos == 1 else wire.pubrec(p.mid) + wire.pubcomp(p.mid))
    return more


def publish(found, payload, qos, topic, p=None):
    """A message that is sent and completed at once. Returns its PUBLISH."""
    found.publish(payload, qos, topic, False, p)
    sent = found.sent()
    done(found, sent)
    (only,) = sent
    return only


def test_first_and_later():
    """[MQTT5-3.2.2-17] [MQTT5-3.3.2-7] [MQTT5-3.3.2-8] [MQTT5-3.3.2-9] The first message to a topic brings the alias,
    from 1 on, the others leave without the topic; at each QoS, whichever was first."""
    for qos in (0, 1, 2):
        found = peer()
        found.up(0, False, LIMIT)
        for k in range(3):
            for i, topic in enumerate(TOPICS):
                p = publish(found, b"%d" % k, (qos + k) % 3, topic)
                eq((p.topic, alias_of(p), p.payload), ("" if k else topic.decode(), i + 1, b"%d" % k))


def test_every_length():
    """[MQTT5-3.3.2-12] Topics, properties and payloads around the lengths at which a length takes another byte, up to
    the longest that the buffer holds, and beyond. The server knows which topic it is, and gets what was published."""
    blocks = [None] + [properties(correlation=bytes(n)) for n in (1, 118, 119, 120, 121, 122, 123, 124)]
    for block in blocks:
        for topic in (b"four", b"fives", b"a/topic/of/some/length", b"x" * 125):
            found = peer(buffer=800)
            found.up(0, False, LIMIT)
            server = Connection(Server(announced=(LIMIT,)))
            for n in (0, 90, 96, 97, 98, 99, 100, 101, 102, 103, 104, 122, 123, 124, 125, 126, 127, 128, 180, 700):
                payload = bytes([n & 127]) * n
                qos = (n + len(topic)) % 3
                p = publish(found, payload, qos, topic, block)
                eq(p.topic == "", len(server.aliases) > 0)
                server.resolve(p)
                eq((p.topic, p.payload, p.qos), (topic.decode(), payload, qos))
                eq([value for kind, value in p.properties if kind != ALIAS], [block.block[4:]] if block else [])
            eq(len(server.aliases), 1 if len(topic) > 4 else 0)


def test_a_long_message_is_not_the_first():
    """One that fills the buffer leaves no space for an alias: it leaves with its topic alone."""
    found = peer()
    found.up(0, False, LIMIT)
    eq(alias_of(publish(found, bytes(600), 1, TOPICS[0])), None)
    eq(alias_of(publish(found, bytes(60), 1, TOPICS[0])), 1)
    p = publish(found, bytes(600), 2, TOPICS[0])
    eq((p.topic, alias_of(p), p.payload), ("", 1, bytes(600)))


def test_no_more_than_the_broker_takes():
    """[MQTT5-3.2.2-17] [MQTT5-3.2.2-18] [MQTT5-3.3.2-9] As many as it says, or as the application wants; none if it
    says nothing. Other topics leave as they are."""
    for most, announced, wanted in ((10, (0x22, 2), 2), (2, (0x22, 65535), 2), (10, (0x22, 0), 0), (10, None, 0)):
        found = peer(most)
        found.up(0, False, *([announced] if announced else []))
        for _ in range(2):
            sent = [publish(found, b"x", 1, topic) for topic in TOPICS]
            eq([alias_of(p) for p in sent], [1, 2, 3][:wanted] + [None] * (3 - wanted))


def test_each_connection_begins_anew():
    """[MQTT5-3.3.2-7] Messages that are sent again bring their topic; the journal has nothing of an alias. The next
    broker may take none."""
    for restart in (False, True):
        device = RamFlash()
        found = peer(device=device)
        found.up(0, False, LIMIT)
        for k in range(3):
            found.publish(b"%d" % k, 1 + k % 2, TOPICS[0])
        eq(named(found.sent()), [("sensors/attic", 1), ("", 1), ("", 1)])
        if restart:
            found = peer(device=device)
        again = found.up(1, False, LIMIT)
        eq(named(again), [("sensors/attic", 1), ("", 1), ("", 1)])
        eq([(p.dup, p.payload) for p in again], [(True, b"0"), (True, b"1"), (True, b"2")])
        eq(named(found.up(1)), [("sensors/attic", None)] * 3)
        eq(named(Peer5(device).up(1, False, LIMIT)), [("sensors/attic", None)] * 3)


def test_a_refused_message_brought_it():
    """[MQTT5-3.3.2-7] The broker may not have taken the alias: the next message brings it again. One that was refused
    and did not bring it changes nothing."""
    for qos, refuse in ((1, wire.puback), (2, wire.pubrec)):
        found = peer()
        found.up(0, False, LIMIT)
        found.publish(b"x", qos, TOPICS[0])
        (p,) = found.sent()
        done(found, [publish(found, b"x", 0, TOPICS[1])])
        found.feed(refuse(p.mid, 0x87))
        eq(named([publish(found, b"x", 1, TOPICS[2])]), [("sensors/garden", 1)])
        eq(named([publish(found, b"x", 1, TOPICS[0])]), [("sensors/attic", 3)])
        found.publish(b"x", qos, TOPICS[0])
        (p,) = found.sent()
        found.feed(refuse(p.mid, 0x87))
        eq(named([publish(found, b"x", 1, TOPICS[0])]), [("", 3)])


def test_maximum_packet_size():
    """[MQTT5-3.2.2-15] A message that fits without an alias leaves without one."""
    found = peer()
    found.up(0, False, LIMIT, (0x27, 50))
    size = 50 - len(TOPICS[0]) - 7
    for n, wanted in ((size, None), (size - 2, None), (size - 3, 1), (size, 1)):
        p = publish(found, bytes(n), 1, TOPICS[0])
        eq((alias_of(p), len(p.raw) <= 50), (wanted, True))


def test_expiry_and_lowered_qos():
    """What else is changed on the way out stays as it is: the expiry counts down, QoS 2 becomes 1."""
    found = peer()
    found.publish(b"x", 2, TOPICS[0], True, properties(expiry=100))
    found.publish(b"y", 2, TOPICS[0], True, properties(expiry=100))
    found.session.clock.value += 40
    sent = found.up(0, False, LIMIT, (0x24, 1), (0x25, 0))
    eq(named(sent), [("sensors/attic", 1), ("", 1)])
    eq([(p.qos, p.retain, dict(p.properties)[2]) for p in sent], [(1, False, 60)] * 2)


def test_other_packets_between():
    """Acknowledgements and requests are left alone, and messages in pieces too."""
    found = peer(max_inflight=1)
    found.up(0, False, LIMIT)
    found.session.subscribe([b"0123456789"], [1])
    found.publish(bytes(2000), 2, TOPICS[0])
    found.publish(b"0" * 2000, 0, TOPICS[0])
    sent = found.sent() + found.feed(wire.pubrec(1)) + found.feed(wire.publish("t", b"", 1, 9, properties=b"\0"))
    eq(sorted(p.kind for p in sent), [PUBLISH, PUBLISH, PUBACK, PUBREL, 8])
    eq([p.payload for p in sent if p.qos == 0 and p.kind == PUBLISH], [b"0" * 2000])
