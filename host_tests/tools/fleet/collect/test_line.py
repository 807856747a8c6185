"""A message as a line of a landing file."""

import base64
import json

import pytest

from inflight_tools.fleet.collect.line import line

MOST = 16
WARM = "\U0001f321"  # four bytes


def made(payload, topic="inflight/attic/telemetry"):
    raw = line(1700000000123, "collector-0", topic, 1, True, False, payload, MOST)
    assert raw.endswith(b"\n") and raw.count(b"\n") == 1 and raw.isascii()
    return json.loads(raw)


def encoded(payload):
    return base64.b64encode(payload).decode()


# Of a payload: what the line has of it. What is too long is cut and marked; no character is divided.
CASES = {text.encode(): {"text": text} for text in ("21.5", "", '"\\', "a\nb\r\u2028", "\0\x7f", "Grad °C", WARM)}
CASES |= {payload: {"base64": encoded(payload)} for payload in (b"\xff", b"\xc3", b"ok\xed\xa0\x80")}
CASES[b"x" * MOST] = {"text": "x" * MOST}
CASES[b"\xfe" * 99] = {"base64": encoded(b"\xfe" * MOST), "truncated": True, "length": 99}


@pytest.mark.parametrize("payload", CASES, ids=repr)
def test_all_fields(payload):
    fields = {"at": 1700000000123, "by": "collector-0", "topic": "inflight/attic/telemetry", "qos": 1, "dup": True}
    assert made(payload) == fields | {"retain": False} | CASES[payload]


def test_a_topic_comes_back_as_it_is():
    assert made(b"", "Grad °C/" + WARM)["topic"] == "Grad °C/" + WARM


@pytest.mark.parametrize("before", range(4))
def test_too_long(before):
    text = "x" * before + WARM * 100
    fields = made(text.encode())
    assert (fields["truncated"], fields["length"]) == (True, len(text.encode()))
    assert text.startswith(fields["text"]) and len(fields["text"].encode()) > MOST - 4
