"""Properties of MQTT 5 as a landing line keeps them, from the bytes of a PUBLISH."""

import base64
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from inflight_tools.fleet.collect.client5 import split
from inflight_tools.fleet.collect.line import line
from inflight_tools.fleet.collect.property_block import properties
from inflight_tools.fleet.lines.properties import MOST
from tools.reference.properties import block
from tools.reference.wire import publish

FORMAT, EXPIRY, TYPE, RESPONSE, CORRELATION, SUBSCRIPTION, ALIAS, USER = 1, 2, 3, 8, 9, 11, 35, 38


def sent(*pairs, payload=b"1", qos=1):
    """What split() finds in a PUBLISH with these properties."""
    packet = publish("a/b", payload, qos, 7 if qos else 0, properties=block(*pairs))
    behind = 2 if packet[1] < 128 else 3 if packet[2] < 128 else 4
    return split(bytearray(packet[behind:]), qos)


def kept(*pairs):
    return properties(sent(*pairs)[2])


def test_all_properties():
    found = kept(
        *((FORMAT, 1), (EXPIRY, 86_400), (TYPE, "a/ü"), (RESPONSE, "to/me"), (CORRELATION, b"\xff\0")),
        *((USER, ("name", "1")), (SUBSCRIPTION, 5), (ALIAS, 3), (USER, ("", "")), (USER, ("name", "\ufeff\U0001f321"))),
    )
    assert found == {
        "payload_format": 1,
        "expiry": 86_400,
        "content_type": "a/ü",
        "response_topic": "to/me",
        "correlation": base64.b64encode(b"\xff\0").decode(),
        "user_properties": [("name", "1"), ("", ""), ("name", "\ufeff\U0001f321")],
    }


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("payload", [b"", b"x" * 70_000], ids=["empty", "long"])
def test_a_packet(payload, qos):
    topic, mid, found, rest = sent((EXPIRY, 5), payload=payload, qos=qos)
    assert (topic, mid, rest) == (b"a/b", 7 * qos, payload) and properties(found) == {"expiry": 5}


def test_a_message_without_properties_has_the_line_of_level_4():
    words = 1, "c", "a/b", 1, False, False, b"21", 99
    assert line(*words, sent()[2]) == line(*words) == line(*words, sent((SUBSCRIPTION, 1))[2])


def test_what_is_longer_than_the_limit_is_cut_and_marked():
    one = (USER, ("name", "x" * 1000))
    long = sent((EXPIRY, 5), *[one] * 200)[2]
    found = properties(long)
    assert (found["expiry"], found["truncated"], found["length"]) == (5, True, len(long))
    assert found["user_properties"] == [one[1]] * ((MOST - 5) // (len(long) // 200))
    fits = sent(*[(USER, ("", "x" * (MOST // 64 - 5)))] * 64)[2]
    assert len(fits) == MOST and list(properties(fits)) == ["user_properties"]
    assert properties(sent((TYPE, "x" * 65_535))[2]) == {"truncated": True, "length": 65_538}


BAD = [b"\x7f", b"\x02\0\0\0", b"\x03\0\x09x", b"\x03\0\1\xff", b"\x26\0\1\xff\0\0", b"\x26\0\0"]


@pytest.mark.parametrize("bad", [*BAD, b"\x0b\xff\xff\xff\xff\1"], ids=repr)
def test_a_block_that_is_not_of_mqtt_5_is_kept_as_it_is(bad):
    """No broker should deliver it. It would send it again for ever."""
    assert properties(b"\x02\0\0\0\5" + bad) == {"undecodable": base64.b64encode(b"\x02\0\0\0\5" + bad).decode()}


def test_a_block_longer_than_its_packet_takes_all_of_it():
    topic, mid, found, payload = split(b"\0\1a\0\7" + b"\x09\x02\0\0\0\5", 1)
    assert (topic, mid, payload) == (b"a", 7, b"") and properties(found) == {"expiry": 5}
    assert split(b"\0\1a\0\7" + b"\xff\xff\xff\xff\x01\x02", 1)[2:] == (b"\xff\xff\xff\xff\x01\x02", b"")
    assert split(b"\0\1a\0\7", 1) == (b"a", 7, b"", b"")


@pytest.mark.parametrize("packet", [b"", b"\0", b"\0\3ab", b"\0\1a\0"], ids=repr)
def test_a_packet_without_a_whole_topic_and_id(packet):
    with pytest.raises(ValueError, match="ends within"):
        split(packet, 1)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(some.binary(max_size=40))
@example(b"\x26" * 40)
def test_whatever_a_block_is_there_is_a_line(data):
    made = line(1, "c", "a/b", 1, False, False, b"21", 99, data)
    assert made.isascii() and json.loads(made)["text"] == "21"
