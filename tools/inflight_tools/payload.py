"""What devices publish, read by whoever receives it: anybody may have published something else."""

import json
import math
from typing import Any, NoReturn

_DIGITS = 20  # of a whole number, with its sign: 64 bits


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _float(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError("a number that no double can hold")
    return number


def _int(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError("a number of more than 64 bits")
    return int(text)


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_float, parse_int=_int)


def fields_of(payload: bytes | str) -> dict[str, Any]:
    """The JSON object, a dict, that `payload`, bytes or text, consists of; its numbers are finite, and have 64 bits at
    most. ValueError if it is something else, or nests too deep."""
    try:
        found = _DECODER.decode(payload if isinstance(payload, str) else payload.decode())
    except RecursionError:
        raise ValueError("nests too deep") from None
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found


def whole(fields: dict[str, Any], name: str, most: int, least: int = 0) -> int:
    """The number `name` of `fields`: whole, from `least` to `most`. ValueError if it is something else."""
    value = fields.get(name)
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is not a whole number from {least} to {most}")
    return value
