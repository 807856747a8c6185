"""Topic names and filters: validation and matching. data: the length of the filter, the filter, the name."""

from inflight.arguments import encode_name
from inflight.client.subscriptions import matches
from inflight.session.subscribe import encode_filter
from outcome import STRICT, Outcome, demand

if STRICT:
    from wire_reference import name_is_valid, text_is_valid


def _filter_is_valid(data):
    levels = data.split(b"/")
    for k, level in enumerate(levels):
        if b"#" in level and (level != b"#" or k != len(levels) - 1):
            return False
        if b"+" in level and level != b"+":
            return False
    return len(data) > 0 and text_is_valid(data)


def _agree(pattern, name):
    # Level by level, as section 4.7 of the standard defines it.
    if name[:1] == b"$" and pattern[:1] in (b"#", b"+"):
        return False
    return _levels_agree(pattern.split(b"/"), name.split(b"/"))


def _levels_agree(patterns, names):
    if patterns == [b"#"]:
        return True
    if not patterns or not names:
        return not patterns and not names
    if patterns[0] not in (b"+", names[0]):
        return False
    return patterns[1:] == [b"#"] or _levels_agree(patterns[1:], names[1:])


def _takes(encode, data):
    try:
        demand(encode(data) == data, "bytes were changed")
        return True
    except ValueError:
        return False


def run(data):
    n = data[0] if data else 0
    pattern, name = data[1 : 1 + n], data[1 + n :]
    good_filter, good_name = _takes(encode_filter, pattern), _takes(encode_name, name)
    if STRICT:
        demand(good_filter == _filter_is_valid(pattern), "filter %r: %d", pattern, good_filter)
        demand(good_name == name_is_valid(name), "name %r: %d", name, good_name)
    matched = None
    if good_filter and good_name:
        buf = b"/+" + name + b"/#"
        matched = matches(pattern, buf, 2, 2 + len(name))
        demand(matched == _agree(pattern, name), "%r and %r: %d", pattern, name, matched)
    outcome = Outcome()
    outcome.note(good_filter, good_name, matched)
    return outcome.number
