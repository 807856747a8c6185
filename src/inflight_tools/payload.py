"""What devices publish, read by whoever receives it: anybody may have published something else."""

import json


def fields_of(payload):
    """The JSON object, a dict, that `payload` consists of. ValueError if it is something else, or nests too deep."""
    try:
        found = json.loads(payload)
    except RecursionError:
        raise ValueError("nests too deep") from None
    if not isinstance(found, dict):
        raise ValueError("no JSON object")
    return found
