# Arguments that public calls refuse: ValueError names the argument, what is allowed and the value, and nothing changes.

import gc
from array import array

from harness import eq, raises
from inflight import Client, FileFlash, Journal, RamFlash, properties
from inflight.flash.pinned import PinnedFlash
from inflight.flash.slots import SlotFlash
from inflight.journal.journal import OUT
from inflight.level5.authentication import Authentication
from inflight.level5.properties5 import connect_properties


def handler(message):
    pass


def client(level=4, **options):
    return Client("broker.example", "d", Journal(RamFlash()), protocol_level=level, **options)


def refused(call, cases):
    """Each of the cases (arguments, text, text, ...) is a ValueError with these texts."""
    for arguments, *texts in cases:
        options = arguments if isinstance(arguments, dict) else {}
        given = () if options else arguments
        told = str(raises(ValueError, lambda call=call, given=given, options=options: call(*given, **options)))
        for text in texts:
            assert text in told, (arguments, told)


def shown(call, **wrong):
    """Each of these values of an argument is a ValueError that names the argument, and shows the value."""
    for name, values in wrong.items():
        refused(call, [({name: value}, name, repr(value)[:20]) for value in values])


OF_A_CLIENT = (
    ({"host": "192.168.0.37:1883"}, "host", "port=", "192.168.0.37:1883"),
    ({"host": "mqtt://broker.example"}, "host", "scheme"),
    ({"host": "broker.example/mqtt"}, "host", "path"),
    ({"host": "[::1]"}, "host", "brackets"),
    ({"client_id": b"\xff"}, "client_id", "UTF-8"),
    ({"client_id": "a\0b"}, "client_id", "UTF-8"),
    ({"client_id": ""}, "client_id"),
    ({"client_id": "", "protocol_level": 3, "clean_session": True}, "client_id", "level 3"),
    ({"client_id": "a" * 24, "protocol_level": 3}, "client_id", "level 3"),
    ({"client_id": "a" * 65536, "buffer": bytearray(200_000)}, "client_id"),
    ({"journal": RamFlash()}, "journal", "a Journal"),
    ({"journal": "journal.bin"}, "journal", "a Journal"),
    ({"port": 65536}, "port", "0 to 65535", "65536"),
    ({"tls": True}, "tls", "SSLContext", "True"),
    ({"headers": {"a": "b"}}, "headers", "path"),
    ({"path": "/", "headers": ("a", "b")}, "headers", "dict"),
    ({"user": 5}, "user", "str or bytes", "this int"),
    ({"user": b"\xed\xa0\x80"}, "user", "UTF-8"),
    ({"user": "u\0"}, "user", "UTF-8"),
    ({"user": "u" * 500, "buffer": bytearray(256)}, "buffer"),
    ({"password": "p"}, "a password needs a user name"),
    ({"user": "u", "password": 5}, "password"),
    ({"user": "u", "password": "x" * 600}, "buffer: 1246 bytes at least", "password"),
    ({"user": "u", "password": "x" * 65536}, "password", "65536"),
    ({"will": ("a", "x")}, "will", "(topic, payload, qos, retain)"),
    ({"will": ("a", b"x" * 65536, 0, False)}, "payload of will", "65536"),
    ({"will": ("a", None, 0, False)}, "payload of will"),
    ({"will": ("a", "x", 0, "yes")}, "retain of will", "'yes'"),
    ({"will": ("a", "x", 0, False, {})}, "properties of will", "{}"),
    ({"keepalive": 1.5}, "keepalive", "0 to 65535 s", "1.5"),
    ({"protocol_level": 5, "session_expiry": 9, "clean_session": True}, "session_expiry"),
    ({"protocol_level": 5, "auth": "SCRAM"}, "auth", "Authentication", "this str"),
    ({"protocol_level": 5, "stall_ms": 39_999}, "stall_ms"),
    ({"protocol_level": 5, "stall_ms": 86_400_001}, "stall_ms"),
    ({"protocol_level": 5, "retry_ms": 1000}, "retry_ms"),
    ({"buffer": bytes(1024)}, "buffer", "bytearray"),
    ({"buffer": bytearray(127)}, "buffer", "128"),
    ({"max_inflight": 70_000}, "max_inflight", "1 to 65535", "70000"),
    ({"protocol_level": 5, "max_inflight": 65}, "max_inflight", "64"),
    ({"when_full": "none"}, "when_full", '"oldest"', "'none'"),
    ({"backoff_ms": 1000}, "backoff_ms", "(first, longest)", "1000"),
    ({"backoff_ms": (-1, 5)}, "backoff_ms", "-1"),
    ({"backoff_ms": (6, 5)}, "backoff_ms", "0 to 5", "6"),
    ({"backoff_ms": (1, 1 << 29)}, "backoff_ms", "536870912"),
)


def test_a_client():
    """[MQTT-1.5.3-1] [MQTT-1.5.3-2] [MQTT-3.1.2-14] [MQTT-3.1.2-22] [MQTT-3.1.3-4] [MQTT-3.1.3-7] [MQTT-3.1.3-10]
    [MQTT-3.1.3-11] [MQTT31-3] [MQTT31-4] [MQTT31-20] [MQTT5-3.1.2-12] [MQTT5-3.1.3-4] [MQTT5-3.1.3-11] Before a
    connection is opened."""

    def make(host="broker.example", client_id="d", **options):
        return Client(host, client_id, **options)

    refused(make, OF_A_CLIENT)
    shown(make, host=("", None, b"h", "a b", "a\0"), client_id=(5,), port=(-1, "1883", None), path=(5, b"/mqtt"))
    shown(make, will=("gone", ("a", "x", 0, False, None, None)), keepalive=(-1, 65536), clean_session=("no",))
    shown(make, protocol_level=(4.0, 2, 6), slept=("1",), max_redeliveries=(-1, True, 65536), buffer=(1024,))
    shown(make, max_inflight=(0,), receive_maximum=(0, 70_000), timeout_ms=(0, 1 << 29), retry_ms=(-1,))
    shown(make, backoff_ms=((1000,), "ab"), reconnect=("no",), on_message=("print",), on_connect=(1,))
    shown(make, on_disconnect=((),), on_complete=(1,), on_error=(1,))

    def of_level_5(**options):
        return make(protocol_level=5, **options)

    shown(of_level_5, session_expiry=("1", 0, 1 << 32, 1.5), slept=(1.5, 1 << 32), aliases=(True, -1, 65536))
    shown(of_level_5, stall_ms=(60_000.0,), connect_properties=({}, properties(expiry=1)), receive_maximum=(70_000,))
    refused(make, [({"path": path}, "path") for path in ("", "mqtt", "/a b", "/\r\nX: y", "/\xe4")])
    refused(make, [({name: 9}, name, "protocol_level=5") for name in ("session_expiry", "aliases", "stall_ms")])
    for headers in ({5: "b"}, {"a": 5}, {"a": "a\r\nb: c"}, {"a:": "b"}, {"": "b"}):
        refused(make, (({"path": "/", "headers": headers}, "headers"),))
    for topic in (5, "a/#", "", b"\xff", "a\0"):
        refused(make, (({"will": (topic, "x", 0, False)}, "topic of will", repr(topic)),))
    for qos in (3, -1, 1.0, True):
        refused(make, (({"will": ("a", "x", qos, False)}, "qos of will", repr(qos)),))


def test_a_password_is_not_shown():
    told = raises(ValueError, lambda: Client("h", "d", user="u", password=["secret"]))
    assert "secret" not in str(told)


def test_a_name_that_no_argument_has():
    """TypeError, as of any function; it names the argument that may be meant."""
    for given, meant in (
        ("keep_alive", "keepalive"),
        ("username", "user"),
        ("timeout", "timeout_ms"),
        ("clientid", "client_id"),
        ("KeepAlive", "keepalive"),
        ("reconnet", "reconnect"),
    ):
        told = str(raises(TypeError, lambda given=given: Client("h", "d", **{given: 5})))
        assert given in told and "did you mean %s?" % meant in told, told
    told = str(raises(TypeError, lambda: Client("h", "d", qos=1)))
    assert "qos" in told and "did you mean" not in told, told


def test_addresses_are_hosts():
    for host in ("broker.example", "192.168.0.37", "::1", "fe80::1%eth0", "broker"):
        Client(host, "d")


OF_PUBLISH = (
    ({"qos": 1.0}, "qos is 0, 1 or 2, not 1.0"),
    ({"payload": bytes(5000)},),  # longer than the journal
    ({"payload": array("H", [1, 2])}, "payload"),
    ({"topic": "x" * 70_000}, "topic", "70000"),
    ({"topic": "x" * 600},),  # longer than the buffer
    ({"topic": "\ud800"},),
)


def test_publish():
    """[MQTT-1.5.3-1] [MQTT-3.3.1-4] [MQTT-3.3.2-1] [MQTT-3.3.2-2] [MQTT-4.7.1-1] [MQTT-4.7.3-1] [MQTT-4.7.3-2]
    [MQTT-4.7.3-3]"""
    for level in (3, 4, 5):
        it = client(level)
        before = it.counters()

        def publish(topic="t", payload=b"", qos=1, retain=False, properties=None, it=it):
            return it.publish(topic, payload, qos, retain, properties)

        refused(publish, OF_PUBLISH)
        shown(publish, topic=("", "a/+", "#", 5, None, "a\0", b"\xff"), payload=(None, 21.4, [1, 2]))
        shown(publish, qos=(True, 3, -1, None), retain=("yes",), properties=({},))
        eq((it.pending, it.counters(), it.session.journal.used), (0, before, 0))
        assert it.publish("t", b"x", 1) > 0
    refused(Client("h", "d").publish, ((("t", b"needs a journal", 1), "qos"),))


def test_a_memoryview_is_published_whole():
    """Also one of wider items, of which len() tells too little."""
    wide = memoryview(array("H", range(1, 9)))
    for view in (wide, memoryview(b"abc"), memoryview(b""), memoryview(array("b", [-1, 5])), memoryview(array("I"))):
        it = client()
        it.publish("t", view, 1)
        journal = it.session.journal
        at = journal.scan(OUT, -1)
        body = bytearray(journal.found_len)
        start = journal.read(at, 0, body)
        eq(start, 0)
        eq(bytes(body[7:]), bytes(view))


OF_SUBSCRIBE = (
    (([("a", 1)], handler), "handler=handler"),
    (([("a", 1)], 1), "each has its QoS"),
    (("a", handler), "qos", "handler="),
    (("a", 1, 5), "handler", "5"),
    (("a", 1, handler, "yes"), "stream", "'yes'"),
    ((5,), "filters", "5"),
    ((["ab", "cd"],), "(filter, qos)", "'ab'"),
    (({"a": 1},), "(filter, qos)"),
    (([("a", 1, handler)],), "(filter, qos)"),
    (([("a", "1")],), "qos", "'1'"),
    (([(None, 1)],), "filter", "None"),
    (([],), "filter"),
)


def test_subscribe():
    """[MQTT5-3.8.3-1] [MQTT5-3.8.3-2]"""
    for level in (4, 5):
        it = client(level)
        it.subscribe("a", 1, handler)
        refused(it.subscribe, OF_SUBSCRIBE)
        refused(it.subscribe, [((name,), "filter", repr(name)) for name in ("a#", "a\0", "")])
        refused(it.subscribe, [(("a", qos), "qos", repr(qos)) for qos in (True, 3)])
        it.subscribe(iter([["b", 1], ("c", 2)]), handler=handler)


def test_unsubscribe():
    """[MQTT5-3.10.3-1] [MQTT5-3.10.3-2]"""
    wrong = ((["a"], "b"), "filter", "['a']"), ((b"\xff",), "filter", "UTF-8"), ((5,), "filter", "5")
    refused(client(5).unsubscribe, wrong + (((), "filter"),))


def test_waiting():
    it = client()
    for call in (it.run_for, it.drain):
        refused(call, [((ms,), "ms", repr(ms)[:9]) for ms in (1.0, "5", True, 1 << 29, 1 << 70)])
        call(0)
        call(-5)
    refused(it.run_for, (((None,), "ms", "None"),))
    refused(it.drain, (((5, "x"), "mid", "'x'"), ((5, 1.0), "mid", "1.0")))
    refused(it.is_pending, (((None,), "mid", "None"), (("1",), "mid", "'1'"), ((1.0,), "mid", "1.0")))
    eq(it.is_pending(0), False)


def test_disconnect():
    refused(client(4).disconnect, (((True,), "will", "protocol_level=5"),))
    refused(client(5).disconnect, ((("yes",), "will", "'yes'"),))


def test_properties():
    """[MQTT5-3.3.2-13] [MQTT5-3.3.2-14] [MQTT5-3.3.2-19] Refused before a byte is sent."""
    shown(properties, expiry=(1.5,), content_type=(5,), response_topic=("a/#", ""), correlation=("x", 5))
    shown(properties, text=("yes",), user=(5,), will_delay=(-1, "1"))
    refused(
        properties,
        (
            ({"expiry": 0}, "expiry", "1 to 4294967295 s"),
            ({"expiry": 1 << 32}, "expiry"),
            ({"content_type": "a\0"}, "content_type", "UTF-8"),
            ({"content_type": b"\xff"}, "content_type", "UTF-8"),
            ({"correlation": bytes(70_000)}, "correlation", "127"),
            ({"correlation": bytes(125)}, "properties take 128 bytes", "127"),
            ({"user": (("x" * 64, "y" * 64),)}, "properties take 133 bytes"),
            ({"user": {"a": "b"}}, "user", "(name, value)"),
            ({"user": (("a", 5),)}, "value of user", "5"),
            ({"user": ((5, "a"),)}, "name of user", "5"),
            ({"user": (("a", "\0"),)}, "value of user", "UTF-8"),
        ),
    )


def test_properties_of_connect():
    shown(connect_properties, max_packet=(0, 1.5, 2000.0, True, "2000", 1 << 29), reasons=("yes",), user=(5,))
    shown(connect_properties, response_information=(5,))
    refused(connect_properties, (({"user": (("a",),)}, "user", "(name, value)"),))


def test_flash_and_journal():
    refused(RamFlash, (((0,), "blocks", "0"), ((4.0,), "blocks", "4.0")))
    refused(RamFlash, (((4, 100), "block_size", "64", "100"), ((4, "x"), "block_size")))
    refused(FileFlash, (((5,), "path", "5"), (("f", "x"), "blocks", "'x'"), (("f", 4, 1.5), "block_size", "1.5")))
    refused(SlotFlash, (((5,), "folder", "5"), (("/f", 0), "n", "0"), (("/f", 4, "x"), "size", "'x'")))
    refused(
        PinnedFlash, (((None, 5), "folder", "5"), ((None, "/f", "x"), "n", "'x'"), ((None, "/f", 4, 5), "root", "5"))
    )
    refused(Journal, (((5,), "device", "5"), ((None,), "device", "None"), (("journal.bin",), "device", "journal.bin")))


def test_authentication():
    refused(Authentication, (((5, handler), "method", "5"), (("SCRAM", b"token"), "answer", "token")))


def test_a_long_value_is_shown_in_part():
    """There may be no memory for the text of all of it."""
    value = bytes(20_000)
    raises(ValueError, lambda: properties(expiry=value))
    before = gc.mem_alloc() if hasattr(gc, "mem_alloc") else 0
    gc.disable()
    try:
        text = str(raises(ValueError, lambda: properties(expiry=value)))
        used = gc.mem_alloc() - before if before else 0
    finally:
        gc.enable()
    assert len(text) < 150 and "b'\\x00" in text, text
    assert used < 20_000, used
