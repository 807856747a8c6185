"""The collector at level 5: what it keeps, its session, and what a broker says. With mosquitto and a scripted one."""

import re

import pytest

from host_tests.thorough import THOROUGH
from host_tests.tools.fleet.collect.collecting import at, publish
from tools.reference.kinds import DISCONNECT, PUBACK
from tools.reference.properties import block, variable
from tools.reference.wire import connack, disconnect
from tools.reference.wire import publish as delivery

LEVEL_5 = ("--protocol-level", 5)
SESSION_EXPIRY, REASON, USER, MAXIMUM_PACKET_SIZE = 17, 31, 38, 39
MANY = {
    "PayloadFormatIndicator": 1,
    "MessageExpiryInterval": 86_400,
    "ContentType": "application/senml+json",
    "ResponseTopic": "me",
    "CorrelationData": b"\xff\0",
    "UserProperty": [("firmware", "1.2"), ("note", "\ufeffü"), ("firmware", "1.3")],
}


def test_properties_are_kept_at_level_5_only(broker, collect, landing):
    """U+FEFF is a character of MQTT's strings. Paho ends the connection for it; the next message would never come."""
    collect(*at(broker), *LEVEL_5, "--name", "five").connected()
    collect(*at(broker), "--name", "four").connected()
    publish(broker, b"1", **MANY)
    publish(broker, b"2")
    landing.until(4)
    five, four = ([one for one in landing.lines if one["by"] == name] for name in ("five", "four"))
    found = five[0].pop("properties")
    assert 86_400 - 60 <= found.pop("expiry") <= 86_400
    assert found == {
        "payload_format": 1,
        "content_type": "application/senml+json",
        "response_topic": "me",
        "correlation": "/wA=",
        "user_properties": [["firmware", "1.2"], ["note", "\ufeffü"], ["firmware", "1.3"]],
    }
    same = [{**one, "at": 0, "by": ""} for one in four]
    assert [{**one, "at": 0, "by": ""} for one in five] == same
    assert list(four[0]) == list(five[1]) == ["at", "by", "topic", "qos", "dup", "retain", "text"]


@pytest.mark.parametrize(("before", "after"), [(4, 5), (5, 4)])
def test_a_session_survives_a_kill_and_a_change_of_the_level(broker, collect, landing, before, after):
    collect(*at(broker), "--protocol-level", before).connected().kill()
    publish(broker, b"1", ContentType="a")
    publish(broker, b"2")
    program = collect(*at(broker), "--protocol-level", after).connected()
    first, second = landing.until(2)
    assert (first["text"], second["text"]) == ("1", "2")
    assert first.get("properties") == ({"content_type": "a"} if after == 5 else None) and "properties" not in second
    publish(broker, b"3")
    landing.until(3)
    assert program.end() == 0
    publish(broker, b"4")  # DISCONNECT does not end the session
    assert collect(*at(broker), "--protocol-level", before).connected() and landing.until(4)
    assert landing.texts() == ["1", "2", "3", "4"]


def test_two_collectors_with_one_name_are_told_so_at_once(broker, collect, tmp_path):
    first = collect(*at(broker), *LEVEL_5).connected()
    second = collect(*at(broker), *LEVEL_5, "--landing", tmp_path / "other")
    first.until(r"\(Session taken over: is there another client named collector-0\?\)")
    second.connected()


@pytest.mark.parametrize(
    ("fields", "kept"), [('"protocol_level": 5', True), ('"protocol_level": 3', False), ("", False)]
)
def test_the_level_is_that_of_the_configuration(broker, collect, landing, tmp_path, fields, kept):
    config = tmp_path / "config.json"
    config.write_text(f'{{"host": "127.0.0.1", "port": {broker.port}{fields and ", "}{fields}}}')
    collect("--config", config).connected()
    publish(broker, b"1", ContentType="a")
    assert ("properties" in landing.one()) == kept


def whole_connection(broker, **fields):
    """From CONNECT, which is returned, to DISCONNECT, when the collector is stopped."""
    p = broker.welcome(**fields)
    broker.grant()
    broker.goodbye()
    broker.cut()
    return p


def test_what_is_announced(scripted, collect):
    """The session is to last for ever, and continues. A packet has a MiB beside the longest payload; no limit of their
    number, since the collector reads no more than it can write."""

    def script(broker):
        p = whole_connection(broker, level=5, clean=0)
        assert sorted(p.properties) == [(SESSION_EXPIRY, 0xFFFFFFFF), (MAXIMUM_PACKET_SIZE, 5000 + (1 << 20) + 2)]

    with scripted.play(script):
        assert collect(*at(scripted), *LEVEL_5, "--max-payload", 5000).connected().end() == 0


@pytest.mark.parametrize(("level", "begin"), [(5, b"\x32"), (4, b"\x90")], ids=["level5", "level4"])
def test_a_packet_that_is_longer_than_the_maximum_ends_the_connection(scripted, collect, landing, level, begin):
    """[MQTT5-3.1.2-24] forbids the broker to send it; at level 4 one that is no message has a limit. Nothing of it is
    read but its fixed header; what other devices publish is collected on the next connection."""
    block = b"\0" if level == 5 else None

    def script(broker):
        broker.welcome()
        broker.grant()
        broker.send(delivery("inflight/a/status", b"1", 1, 7, properties=block))
        broker.expect(PUBACK, mid=7)
        broker.send(begin + variable(250_000_000))
        if level == 5:
            broker.expect(DISCONNECT, code=0x95)
        broker.expect_close()
        broker.welcome(1)
        broker.send(delivery("inflight/b/status", b"2", 1, 8, properties=block))
        broker.expect(PUBACK, mid=8)
        broker.goodbye()
        broker.cut()

    with scripted.play(script):
        program = collect(*at(scripted), "--protocol-level", level)
        program.until(r"the broker sends a packet of 250,000,000 bytes, .*\); retrying")
        landing.until_all("12")
        assert program.end() == 0
    assert landing.figures()["reconnects"] == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (connack(0, 1), "does not take MQTT 5: use --protocol-level 4"),  # of a broker of 3.1.1
        (connack(0, 0x84, b"\0"), "does not take MQTT 5: use --protocol-level 4"),
        (connack(0, 0x87, block((REASON, "no\x1b such user"))), r"refuses .*: Not authorized (no\x1b such user)"),
    ],
    ids=["3.1.1", "0x84", "0x87"],
)
def test_refused(scripted, collect, answer, said):
    def script(broker):
        broker.called()
        broker.send(answer)
        broker.expect_close()

    with scripted.play(script):
        program = collect(*at(scripted), *LEVEL_5)
        assert program.status() == 1
    assert re.search(re.escape(said).replace(r"\.\*", ".*"), program.output()), program.output()


UNREADABLE = connack(0, 0, b"\x02\x7f\0")
ODD = [
    (None, r"does it take MQTT 5\? Without it: --protocol-level 4"),
    (UNREADABLE, r"\(a CONNACK that is not of MQTT 5: "),
    *((connack(0, code, b"\0"), "retrying") for code in (0x88, 0x89, 0x97, 0x9F)),  # refused for now
]


@pytest.mark.parametrize(("answer", "said"), ODD if THOROUGH else ODD[:3])
def test_a_broker_that_answers_oddly_once(scripted, collect, answer, said):
    """And then keeps the session for a while only."""

    def script(broker):
        broker.called()
        if answer:
            broker.send(answer)
        if answer == UNREADABLE:
            broker.expect_close()
        else:
            broker.cut()
        whole_connection(broker, announced=((SESSION_EXPIRY, 3600),))

    with scripted.play(script):
        program = collect(*at(scripted), *LEVEL_5).connected()
        program.until("keeps a session without a connection for 3600 s only")
        assert program.end() == 0
    assert re.search(said, program.output())
    assert ("--protocol-level" in program.output()) == (answer is None)


@pytest.mark.parametrize("given", [(REASON, "\ufeffwelcome"), (USER, ("\ufeff", "\ufeff"))], ids=["reason", "user"])
def test_a_byte_order_mark_in_what_a_broker_says(scripted, collect, given):
    """U+FEFF is a character of MQTT's strings [MQTT5-1.5.4-3]."""

    def script(broker):
        broker.welcome(announced=(given,))
        broker.grant()
        broker.send(disconnect(0x8B, block((REASON, "\ufeffback at ten"))))
        broker.cut()
        broker.called()
        broker.send(connack(0, 0x88, block((REASON, "\ufeffat eleven"))))
        broker.cut()
        whole_connection(broker)

    with scripted.play(script):
        program = collect(*at(scripted), *LEVEL_5).connected()
        program.until(r"\(Server shutting down \(.*back at ten\)\); retrying")
        program.until("connected to the broker", times=2)
        assert program.end() == 0


def test_what_no_broker_should_deliver_is_taken(scripted, collect, landing):
    """A topic that is not UTF-8, and properties that are none: the broker would send the message for ever."""

    def script(broker):
        broker.welcome()
        broker.grant()
        broker.send(delivery(b"inflight/\xff/status", b"1", 1, 7, properties=b"\0"))
        broker.send(delivery("inflight/a/status", b"2", 1, 8, properties=b"\x01\x7f"))
        broker.send(delivery("inflight/a/status", b"3", 1, 9, properties=b"\xff\xff\xff\xff"))
        for mid in (7, 8, 9):
            broker.expect(PUBACK, mid=mid)
        broker.send(disconnect(0x8B))
        broker.cut()
        broker.welcome(1)
        broker.goodbye()
        broker.cut()

    with scripted.play(script):
        program = collect(*at(scripted), *LEVEL_5)
        program.until("connected to the broker", times=2)
        assert program.end() == 0
    first, second, third = landing.read()
    assert (first["topic"], first["text"], "properties" in first) == ("inflight/\\xff/status", "1", False)
    assert (second["text"], second["properties"]) == ("2", {"undecodable": "fw=="})
    assert third["text"] == "" and "undecodable" in third["properties"]
