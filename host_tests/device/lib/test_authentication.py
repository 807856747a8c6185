"""Enhanced authentication of level 5: the dialogue in front of CONNACK, and its renewal."""

from harness import eq, raises
from inflight.client.client import Client
from inflight.flash.flash import RamFlash
from inflight.level5.authentication import Authentication
from inflight.packet import ProtocolError
from session_peer import split
from session_peer5 import NONE, Peer5, error_of
from tools.reference import wire
from tools.reference.kinds import AUTH, PUBACK, PUBLISH
from tools.reference.properties import block

METHOD, DATA = 0x15, 0x16
M = (METHOD, "m")


class Secret:
    """Answers "1" at the beginning, then one more for each data; notes what came."""

    def __init__(self):
        self.heard = []

    def __call__(self, data):
        self.heard.append(data)
        if data == b"wrong":
            raise ValueError("the broker is another one")
        return b"%d" % len(self.heard) if data != b"nothing" else None


def peer(answer=None, buffer=256):
    found = Peer5(RamFlash(), buffer)
    found.secret = answer or Secret()
    found.auth = Authentication("m", found.secret)
    found.auth.attach(found.session)
    return found


def challenge(data=None, code=0x18, method="m"):
    return wire.auth(code, block((METHOD, method), *([(DATA, data)] if data is not None else [])))


def up(found):
    found.call()
    found.feed(wire.connack(0, 0, block(M)))
    found.session.resume()
    found.secret.heard.clear()
    return found


def said(packets):
    """[(code, properties)] of AUTHs."""
    eq([p.kind for p in packets], [AUTH] * len(packets))
    return [(p.code, sorted(p.properties)) for p in packets]


def test_connect_names_the_method():
    """[MQTT5-4.12.0-5] With the first data, and without any; a long one, too."""
    for answer, data in ((Secret(), b"1"), (lambda data: None, None), (lambda data: b"x" * 150, b"x" * 150)):
        found = dict(peer(answer, 512).call().properties)
        eq((found[METHOD], found.get(DATA)), ("m", data))


def test_a_dialogue():
    """[MQTT5-3.1.2-30] [MQTT5-3.15.2-1] [MQTT5-3.15.2-2] [MQTT5-4.12.0-2] [MQTT5-4.12.0-3] [MQTT5-4.12.0-5] Each AUTH
    of the broker is answered, and nothing else is sent; what CONNACK brings is heard, too."""
    found = peer()
    found.publish(b"waits")
    found.call()
    eq(said(found.feed(challenge(b"a"))), [(0x18, [(METHOD, "m"), (DATA, b"2")])])
    eq(said(found.feed(challenge(b"nothing"))), [(0x18, [(METHOD, "m")])])
    eq(said(found.feed(challenge())), [(0x18, [(METHOD, "m"), (DATA, b"4")])])
    eq(found.feed(wire.connack(0, 0, block(M, (DATA, b"last")))), [])
    eq((found.session.connected, found.secret.heard), (True, [None, b"a", b"nothing", None, b"last"]))
    found.session.resume()
    eq([p.kind for p in found.sent()], [PUBLISH])


def test_a_broker_that_refuses():
    """[MQTT5-4.12.0-1] [MQTT5-4.12.0-4] At any point."""
    for steps in range(3):
        found = peer()
        found.call()
        for _ in range(steps):
            found.feed(challenge(b"a"))
        found.feed(wire.connack(0, 0x87 if steps else 0x8C, NONE))
        eq((found.session.connected, found.session.code), (False, 0x87 if steps else 0x8C))


def test_what_the_broker_may_not_say():
    """[MQTT5-3.15.2-1] [MQTT5-4.12.0-2] [MQTT5-4.12.0-5] Another method, none, or AUTH out of place."""
    wrong = [challenge(method="n"), wire.auth(0x18, NONE), wire.auth(0x18, b""), wire.disconnect(0x87)]
    wrong += [challenge(code=code) for code in (0, 0x19, 0x80)]
    wrong += [wire.connack(0, 0, NONE), wire.connack(0, 0, block((METHOD, "n"))), wire.auth(0x18, block(M, M))]
    for data in wrong:
        found = peer()
        found.call()
        eq(error_of(found, data), 0x82)
        eq(found.session.connected, False)
    for data in (challenge(), challenge(code=0)):
        eq(error_of(up(peer()), data), 0x82)


def test_an_answer_that_refuses_the_broker():
    found = peer()
    found.call()
    error = raises(ProtocolError, found.feed, challenge(b"wrong"))
    eq((error.reason_code, "another one" in str(error)), (0x87, True))
    found = peer()
    found.call()
    eq(error_of(found, wire.connack(0, 0, block(M, (DATA, b"wrong")))), 0x87)
    eq(found.session.connected, False)
    found = peer(lambda data: b"x" * 300 if data else None)  # longer than the buffer
    found.call()
    eq(error_of(found, challenge(b"a")), 0x87)


def test_a_renewal():
    """[MQTT5-3.15.2-3] [MQTT5-4.12.1-1] Messages go on meanwhile."""
    found = up(peer())
    found.auth.renew()
    found.publish(b"between")
    auth, publish = found.sent()
    eq((said([auth]), publish.kind), ([(0x19, [(METHOD, "m"), (DATA, b"1")])], PUBLISH))
    eq(found.auth.renewing, True)
    (answer,) = found.feed(wire.puback(publish.mid) + challenge(b"a"))
    eq((said([answer]), found.session.pending), ([(0x18, [(METHOD, "m"), (DATA, b"2")])], 0))
    (ack,) = found.feed(wire.publish("t", b"x", 1, 7, properties=NONE))
    eq(ack.kind, PUBACK)
    eq(found.feed(challenge(b"last", 0)), [])
    eq((found.auth.renewing, found.secret.heard[-1]), (False, b"last"))
    eq(error_of(found, challenge(b"", 0)), 0x82)


def test_a_renewal_that_is_refused():
    """[MQTT5-4.12.1-2] The broker disconnects; or it is another one, and the client does."""
    found = up(peer())
    found.auth.renew()
    found.sent()
    raises(OSError, found.feed, wire.disconnect(0x87))
    found = up(peer())
    found.auth.renew()
    found.sent()
    eq(error_of(found, challenge(b"wrong")), 0x87)


def test_a_renewal_ends_with_its_connection():
    found = peer()
    raises(OSError, found.auth.renew)
    up(found).auth.renew()
    found.lose()
    eq(found.auth.renewing, False)
    raises(OSError, found.auth.renew)
    found.call()
    found.feed(wire.connack(1, 0, block(M)))
    found.session.resume()
    eq(found.sent(), [])


def test_an_auth_waits_for_the_rest_of_a_packet():
    found = up(peer(buffer=128))
    found.publish(bytes(200))
    session = found.session
    n = session.data_to_send(0)  # its beginning
    data = bytes(session.view[session.out_at : session.out_at + n])
    found.auth.renew()
    kinds = [raw[0] >> 4 for raw in split(data + found.written())]
    eq((n < 64, kinds), (True, [PUBLISH, AUTH]))


def test_arguments():
    """[MQTT5-4.12.0-7] Level 5 only; what does not fit the buffer is refused when the client is made."""
    auth = Authentication("m", Secret())
    raises(ValueError, lambda: Client("h", "dev", auth=auth))
    raises(ValueError, Authentication, "m\0", Secret())
    long = Authentication("m", lambda data: b"x" * 600)
    raises(ValueError, lambda: Client("h", "dev", protocol_level=5, auth=long))
    eq(Client("h", "dev", protocol_level=5, auth=auth).session.auth, auth)
