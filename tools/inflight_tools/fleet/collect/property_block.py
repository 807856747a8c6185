"""The properties of a PUBLISH of MQTT 5, as they stand in a landing line."""

import base64
import json

from inflight_tools.fleet.lines.properties import MOST

_encoded = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps() would make an encoder for each call


class _Short(Exception):
    """The block ends within a property."""


def _number(size):
    def read(block, at):
        if at + size > len(block):
            raise _Short
        return int.from_bytes(block[at : at + size], "big"), at + size

    return read


_two = _number(2)


def _binary(block, at):
    size, at = _two(block, at)
    if at + size > len(block):
        raise _Short
    return block[at : at + size], at + size


def _string(block, at):
    found, at = _binary(block, at)
    return found.decode(), at


def _base64(block, at):
    found, at = _binary(block, at)
    return base64.b64encode(found).decode(), at


def _pair(block, at):
    name, at = _string(block, at)
    value, at = _string(block, at)
    return (name, value), at


def varint(data, at):
    """(value, index behind it) of a Variable Byte Integer. Raises ValueError, IndexError."""
    value = 0
    for shift in (0, 7, 14, 21):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a Variable Byte Integer of more than four bytes")


def _skipped(block, at):
    try:
        return varint(block, at)
    except IndexError:
        raise _Short from None


_USER = "user_properties"
# By identifier: name in a line, None: of this connection alone, and not kept; how it is read. (MQTT 5, 2.2.2.2)
_PROPERTIES = {
    1: ("payload_format", _number(1)),
    2: ("expiry", _number(4)),
    3: ("content_type", _string),
    8: ("response_topic", _string),
    9: ("correlation", _base64),
    11: (None, _skipped),
    35: (None, _two),
    38: (_USER, _pair),
}


def properties(block):
    """What a line keeps of a block of properties (bytes, without its length), as a dict that can be written as JSON:
    empty if the sender gave none.

    expiry: seconds that are left. correlation: base64. user_properties: [(name, value), ...], in the sender's order.
    truncated, length: the block was longer than MOST bytes; these are all that it had. undecodable: base64 of a block
    that is not of MQTT 5. The message is taken all the same: the broker would send it again for ever."""
    kept, found, at = block[:MOST], {}, 0
    try:
        while at < len(kept):
            name, read = _PROPERTIES[kept[at]]
            value, at = read(kept, at + 1)
            if name == _USER:
                found.setdefault(name, []).append(value)
            elif name:
                found[name] = value
    except (_Short, KeyError, ValueError) as problem:
        if len(kept) == len(block) or not isinstance(problem, _Short):
            found = {"undecodable": base64.b64encode(kept).decode()}
    if len(kept) < len(block):
        found |= {"truncated": True, "length": len(block)}
    return found


def member(block):
    """The same as a member of a line, with the comma behind it; "" if nothing is kept."""
    found = properties(block)
    return f'"properties":{_encoded(found)},' if found else ""
