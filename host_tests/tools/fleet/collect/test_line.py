"""A message as a line of a landing file."""

import base64
import json

import pytest

from inflight_tools.fleet.collect.line import line

MOST = 16


def made(payload, topic="inflight/attic/telemetry", dup=False, retain=False):
    raw = line(1700000000123, "collector-0", topic, 1, dup, retain, payload, MOST)
    assert raw.endswith(b"\n") and raw.count(b"\n") == 1 and raw.isascii()
    return json.loads(raw)


def test_all_fields():
    assert made(b"21.5", dup=True) == {
        "at": 1700000000123,
        "by": "collector-0",
        "topic": "inflight/attic/telemetry",
        "qos": 1,
        "dup": True,
        "retain": False,
        "text": "21.5",
    }


@pytest.mark.parametrize("text", ["", '"\\', "a\nb\r\u2028", "\0\x7f", "Grad °C", "\U0001f321"], ids=ascii)
def test_text_comes_back_as_it_is(text):
    assert made(text.encode())["text"] == text
    assert made(b"", topic=text)["topic"] == text


@pytest.mark.parametrize("payload", [b"\xff", b"\xc3", b"ok\xed\xa0\x80"], ids=repr)
def test_not_utf_8(payload):
    fields = made(payload)
    assert base64.b64decode(fields["base64"]) == payload
    assert "text" not in fields and "truncated" not in fields


def test_longest():
    assert "truncated" not in made(b"x" * MOST)


@pytest.mark.parametrize("before", range(4))
def test_too_long(before):
    """Cut and marked. A character is not divided."""
    text = "x" * before + "\U0001f321" * 100
    fields = made(text.encode())
    assert fields["truncated"] is True
    assert fields["length"] == len(text.encode())
    assert text.startswith(fields["text"]) and len(fields["text"].encode()) > MOST - 4


def test_too_long_and_not_utf_8():
    fields = made(b"\xfe" * 99)
    assert base64.b64decode(fields["base64"]) == b"\xfe" * MOST
    assert (fields["truncated"], fields["length"]) == (True, 99)
