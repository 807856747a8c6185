"""Lines of landing files: whatever they hold, there is a row, and it says what is wrong."""

import base64
import json

import pytest

from inflight_tools.fleet.collect.line import line as collected
from inflight_tools.fleet.lines.parse import COLUMNS, LONGEST, MOST_RECORDS, Topics, parse

AT = 1_760_000_000_000
TOPICS = Topics("inflight")


def pack(**first):
    return [{"bn": "urn:dev:mac:ab:", "bt": AT / 1000 - 5, "seq": 3, "epoch": 9, "n": "t", "v": 20, **first}]


def line(body, topic="inflight/attic/telemetry", **fields):
    if not isinstance(body, str):
        body = json.dumps(body)
    whole = {"at": AT, "by": "c", "topic": topic, "qos": 1, "dup": False, "retain": False, "text": body, **fields}
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()


def row(*words, **fields):
    return parse(line(*words, **fields), TOPICS)


def test_a_pack_becomes_a_row_with_its_records():
    found = row(pack())
    assert (found["device"], found["kind"], found["epoch"], found["seq"]) == ("attic", "telemetry", 9, 3)
    assert found["received"] == AT * 1000 and found["problem"] is None
    assert found["records"] == [("t", None, (AT - 5000) * 1000, "device", 20.0, None, None, None, None)]
    assert json.loads(found["payload"]) == pack()


@pytest.mark.parametrize(
    ("topic", "device", "kind", "name"),
    [
        *((f"inflight/attic/{kind}", "attic", kind, None) for kind in ("telemetry", "log", "release", "status")),
        *((f"inflight/attic/reply/{name}", "attic", "reply", name) for name in ("ping", "a/b")),
        ("inflight/attic/actuator/pump", "attic", "actuator", "pump"),
        *((f"inflight/attic{rest}", "attic", None, None) for rest in ("", "/telemetry/more", "/reply")),
        *((f"{start}/telemetry", *[None] * 3) for start in ("inflight/", f"inflight/{129 * 'a'}", "elsewhere/attic")),
    ],
)
def test_topics(topic, device, kind, name):
    assert TOPICS(topic) == (device, kind, name)
    assert Topics("a/b/c")(topic.replace("inflight", "a/b/c")) == (device, kind, name)


@pytest.mark.parametrize(
    ("bt", "time", "clock"),
    [
        (AT / 1000 - 30 * 86400, AT / 1000 - 30 * 86400, "device"),  # a month without a network
        (AT / 1000 + 3600, AT / 1000 + 3600, "device"),  # a wrong time zone
        (0, AT / 1000, "receipt"),
        (-60, AT / 1000 - 60, "receipt"),
        (3600, AT / 1000, "ahead"),  # 1970, an unset clock: SenML reads it as relative to now, so it is in the future
        (500_000_000, AT / 1000, "behind"),  # 1985
        (4_102_444_800, AT / 1000, "ahead"),  # 2100
        (1e300, AT / 1000, "ahead"),
        (-1e300, AT / 1000, "behind"),
    ],
)
def test_clocks(bt, time, clock):
    (record,) = row(pack(bt=bt))["records"]
    assert record[2] == round(time * 1e6) and record[3] == clock


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        *((body, "Expecting value") for body in ("", "[", "nonsense")),
        ('[{"n":"a","v":NaN,"seq":1,"epoch":1}]', "NaN is no JSON"),
        ('[{"n":"a","v":-Infinity,"seq":1,"epoch":1}]', "-Infinity is no JSON"),
        ("[" * 50_000, "nested too deeply"),
        ('[{"n":"a","vs":"\\ud800","v":1,"seq":1,"epoch":1}]', "half a surrogate pair"),
        ("[" + "9" * 5000 + "]", "Exceeds the limit"),
        ("[]", "no seq and epoch"),
        ("{}", "not an array of records; no seq and epoch"),
        ([{"n": "a", "v": 1}], "no seq and epoch"),
        *((pack(seq=seq), "seq and epoch are not two numbers") for seq in (-1, 1 << 32, "3", True)),
        (pack(epoch=None), "seq and epoch are not two numbers"),
        (pack(v="21.5"), "record 0: v is not a number"),
    ],
)
def test_hostile_telemetry_says_what_is_wrong(body, problem):
    found = row(body)
    assert problem in found["problem"]
    assert not found["records"] and found["payload"] is not None


LANDED = [b"", b"garbage", b"\xff\xfe", b"[]", b"null", b"{}", b'{"at":5}', line(pack())[:-20]]
LANDED += [line(pack(), at=at) for at in ("x", -1, 10**30)] + [line(pack(), qos=qos) for qos in ("1", True, 3, 1 << 40)]
LANDED += [line(pack(), topic=5), line(pack(), text=None), line(pack(), text=None, base64="*")]


@pytest.mark.parametrize("landed", LANDED)
def test_a_damaged_line_is_a_dead_letter_with_its_bytes(landed):
    found = parse(landed, TOPICS)
    assert found["problem"] and found["payload"] == landed and found["seq"] is None
    assert set(found) == set(COLUMNS)


UNREAD = {
    f"bytes, {LONGEST} are read": line(json.dumps(pack()) + " " * LONGEST),
    "not UTF-8": line("", text=None, base64=base64.b64encode(b"\xff\x00[").decode()),
    "not a topic of ours": line(pack(), topic="inflight/attic/nonsense"),
}


@pytest.mark.parametrize("problem", UNREAD)
def test_what_is_stored_but_not_read(problem):
    found = parse(UNREAD[problem], TOPICS)
    assert problem in found["problem"] and found["payload"]
    assert found["seq"] is None and not found["records"]


def test_a_payload_that_the_collector_cut():
    assert row(pack(), truncated=True, length=5_000_000)["problem"].startswith("5000000 bytes, the collector keeps")


def test_the_first_records_of_a_pack_with_too_many():
    found = row(pack() + [{"v": 1}] * MOST_RECORDS)
    assert f"{MOST_RECORDS + 1} records, {MOST_RECORDS} are read" in found["problem"]
    assert len(found["records"]) == MOST_RECORDS and found["seq"] == 3


GIVEN = {
    "payload_format": 1,
    "expiry": (1 << 32) - 1,
    "content_type": "application/senml+json",
    "response_topic": "me/ü",
    "correlation": base64.b64encode(b"\xff\0").decode(),
    "user_properties": [["b", "1"], ["", ""], ["b", "\ufeff"]],
}


def test_properties():
    found = row(pack(), properties=GIVEN)
    assert found["problem"] is None and found["seq"] == 3 and len(found["records"]) == 1
    assert found["properties"] == GIVEN | {
        "correlation": b"\xff\0",
        "user_properties": [{"name": name, "value": value} for name, value in GIVEN["user_properties"]],
    }
    some = row(pack(), properties={"expiry": 0, "of_a_later_version": []})["properties"]
    assert some == dict.fromkeys(GIVEN) | {"expiry": 0}
    assert row(pack())["properties"] is None


@pytest.mark.parametrize(
    "properties",
    [5, [], None, "expiry"]
    + [{name: None} for name in GIVEN]
    + [{name: {}} for name in GIVEN]
    + [{"expiry": one} for one in (-1, 1 << 32, 1 << 70, True, 1.5, "60")]
    + [{"payload_format": one} for one in (-1, 256, True, "1")]
    + [{name: one} for name in ("content_type", "response_topic") for one in (1, ["a"], "x" * 65_536)]
    + [{"correlation": one} for one in ("*", "\u00fc", 1, "A" * 100_000)]
    + [{"user_properties": one} for one in ("ab", ["ab"], [["a"]], [["a", 1]], [["a", "b", "c"]], [[None, "a"]])]
    + [{"user_properties": [["x" * 1000, "y"]] * 66}, {"user_properties": [["a", "x" * 65_536]]}],
    ids=lambda value: repr(value)[:60],
)
def test_properties_that_no_collector_writes_are_a_damaged_line(properties):
    whole = json.loads(line(pack())) | {"properties": properties}
    landed = json.dumps(whole).encode()
    found = parse(landed, TOPICS)
    assert found["problem"].startswith("landing: ") and found["payload"] == landed
    assert found["seq"] is None and found["properties"] is None
    assert set(found) == set(COLUMNS)


@pytest.mark.parametrize("size", [0, 49_149, 49_152, 65_533])
def test_correlation_data_of_any_length_that_a_collector_keeps(size):
    """Binary data has up to 65,535 bytes (MQTT 5, 1.5.6). In the line it is base64, which is longer by a third."""
    correlation, body = bytes(size), json.dumps(pack()).encode()
    given = b"\x09" + size.to_bytes(2, "big") + correlation
    landed = collected(AT, "c", "inflight/attic/telemetry", 1, False, False, body, 1 << 20, given)
    found = parse(landed, TOPICS)
    assert (found["device"], found["seq"], found["problem"]) == ("attic", 3, None)
    assert found["properties"]["correlation"] == correlation


def test_half_a_surrogate_pair_in_a_property():
    found = parse(line(pack(), properties={"content_type": "\ud800"}), TOPICS)
    assert found["problem"] == "half a surrogate pair" and found["properties"] is None


def test_properties_that_the_collector_cut_or_could_not_read_keep_the_message():
    cut = row(pack(), properties={"user_properties": [["a", "b"]], "truncated": True, "length": 1_000_000})
    assert cut["problem"] == "1000000 bytes of properties, the collector keeps 65536"
    assert cut["seq"] == 3 and len(cut["records"]) == 1
    assert cut["properties"]["user_properties"] == [{"name": "a", "value": "b"}]
    bad = row(pack(v="x"), properties={"undecodable": "fw=="})
    assert bad["problem"] == "record 0: v is not a number; properties that are not of MQTT 5" and bad["seq"] == 3


def health(**fields):
    journal = {"live": 2, "used": 800, "limit": 49152, "erases": 20, "damaged": 0, "where": "pinned"}
    body = {"seq": 5, "epoch": 9, "firmware": "0.1.0", "up": 60, "heap": 130_000, "journal": journal, "outbox_full": 0}
    body |= {"rssi": -60, "wifi": "online", "reset": "power-on", "errors": {"dht": "OSError: 5"}}
    return row(body | {"counters": {"accepted": 9, "resent": 1}, **fields}, topic="inflight/attic/health")


def test_health():
    found = health()
    assert found["problem"] is None and found["seq"] == 5
    data = found["health"]
    assert (data["up"], data["heap"], data["rssi"], data["reset"]) == (60, 130_000, -60, "power-on")
    assert (data["journal_live"], data["journal_where"]) == (2, "pinned")
    assert dict(data["counters"]) == {"accepted": 9, "resent": 1} and dict(data["errors"]) == {"dht": "OSError: 5"}
    assert data["wake"] == []


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"up": "long"}, "up is not a whole number"),
        ({"up": 1.5}, "up is not a whole number"),
        ({"heap": 1 << 70}, "heap is not a whole number"),
        ({"journal": 5}, "journal is not an object"),
        ({"journal": {"live": []}}, "journal.live is not a whole number"),
        ({"errors": ["a"]}, "errors is not an object"),
        ({"errors": {"a": 5}}, "errors.a is not text"),
        ({"counters": {"a": None}}, None),
        ({"counters": {"a": "x"}}, "counters.a is not a whole number"),
        ({"firmware": 1}, "firmware is not text"),
    ],
)
def test_odd_health_keeps_its_number(fields, problem):
    found = health(**fields)
    assert found["problem"] == problem and found["seq"] == 5
    assert (found["health"] is None) == bool(problem)


def test_health_of_a_host_and_without_a_number():
    assert health(heap=None, rssi=None)["health"]["heap"] is None
    found = health(seq=None, epoch=None)
    assert found["problem"] and found["health"] is None
    assert health(oldest=2)["oldest"] == 2 and health()["oldest"] is None


# Of a message: kind, name, number, state, the oldest number that the broker has not acknowledged, and the problem.
NUMBER = {"seq": 4, "epoch": 9}
OTHERS = [
    ("status", {"state": "online", "oldest": 4} | NUMBER, ("status", None, 4, "online", 4, None)),
    ("status", {"state": "online"}, ("status", None, None, "online", None, "no seq and epoch")),
    ("status", {"state": "offline", "firmware": "0.1.0"}, ("status", None, None, "offline", None, None)),  # a will
    ("reply/ping", {"ok": True} | NUMBER, ("reply", "ping", 4, None, None, None)),
]


@pytest.mark.parametrize(("topic", "body", "expected"), OTHERS)
def test_status_will_and_reply(topic, body, expected):
    found = row(body, topic=f"inflight/attic/{topic}", retain=body.get("state") == "offline")
    assert tuple(found[name] for name in ("kind", "name", "seq", "state", "oldest", "problem")) == expected


@pytest.mark.parametrize("oldest", (-1, 6, "2", True))
def test_an_odd_oldest_number_proves_nothing(oldest):
    found = health(oldest=oldest)
    assert found["problem"] == "oldest is not a number up to seq" and found["oldest"] is None and found["seq"] == 5


def test_a_marker_of_the_collector():
    found = row({"sent": AT - 20, "seq": 5, "epoch": 6}, topic="inflight/c/collector")
    assert (found["kind"], found["made"], found["problem"]) == ("collector", (AT - 20) * 1000, None)
    assert found["seq"] is found["epoch"] is None


@pytest.mark.parametrize(
    ("topic", "body"), [("other/collector", {"sent": AT}), ("c/collector", {"sent": AT + 1}), ("c/collector", {})]
)
def test_a_forged_marker_proves_nothing(topic, body):
    found = row(body, topic="inflight/" + topic)
    assert found["made"] is None and found["problem"] == "not a marker that this collector has sent"
