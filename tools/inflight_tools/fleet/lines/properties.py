"""The properties of MQTT 5 in a landing line, as columns. Pure Python, no I/O."""

import base64
import binascii

NAMES = ("payload_format", "expiry", "content_type", "response_topic", "correlation", "user_properties")
_STRING = 65_535  # bytes of a string or of binary data of MQTT, at most
# Bytes of a block that a collector keeps: what is behind them is left out. Here because Spark's executors need it.
MOST = 64 * 1024


def _whole(most):
    def check(value):
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < most else None

    return check


def _string(value):
    return value if isinstance(value, str) and len(value) <= _STRING else None


def _bytes(value):
    try:
        found = base64.b64decode(value, validate=True) if isinstance(value, str) else None
    except (binascii.Error, ValueError):
        return None
    return found if found is not None and len(found) <= _STRING else None


def _pairs(value):
    if not isinstance(value, list) or not all(isinstance(one, list) and len(one) == 2 for one in value):
        return None
    words = [_string(word) for one in value for word in one]
    if None in words or sum(map(len, words)) > MOST:
        return None
    return [{"name": name, "value": word} for name, word in value]


_CHECKS = {
    "payload_format": _whole(1 << 8),
    "expiry": _whole(1 << 32),
    "content_type": _string,
    "response_topic": _string,
    "correlation": _bytes,
    "user_properties": _pairs,
}


def read(given):
    """(a dict with a key for each of NAMES, problems) of the `properties` of a line. Raises ValueError."""
    if not isinstance(given, dict):
        raise ValueError("landing: properties is not an object")
    found, problems = dict.fromkeys(NAMES), []
    for name, check in _CHECKS.items():
        if name in given:
            found[name] = check(given[name])
            if found[name] is None:
                raise ValueError(f"landing: {name} is not what a collector writes")
    if "undecodable" in given:
        problems.append("properties that are not of MQTT 5")
    if given.get("truncated"):
        problems.append(f"{given.get('length')} bytes of properties, the collector keeps {MOST}")
    return found, problems
