# Readings as SenML packs (RFC 8428), one JSON array per message.

import json
import time

from inflight.compat import const
from inflight.errors import printable

# The epoch of some ports is 2000, that of SenML is 1970.
HEALTH_MS = const(3_600_000)  # between health messages without a connection, at least
EPOCH = 946_684_800 if time.gmtime(0)[0] == 2000 else 0


def seconds(cs):
    """A time in 1/100 s as text, in s: a float of 32 bits cannot hold it."""
    return ("%d.%02d" % (cs // 100, cs % 100)).rstrip("0").rstrip(".")


def start(sources):
    """Starts slow sensors: sources with start(), which returns how many ms the measurement takes. Returns the time
    until all can be read."""
    ms = 0
    for source in sources:
        begin = getattr(source, "start", None)
        if begin:
            ms = max(ms, begin())
    return ms


def read(sources, errors):
    """Yields (name, unit, value) of `sources` (callables that return such triples). Errors are recorded in dict
    `errors`, and removed when the source works again."""
    for source in sources:
        errors.pop(_name(source), None)  # now: a reading may have the same name
        try:
            for name, unit, value in source():
                if isinstance(value, Exception):
                    errors[name] = describe(value)
                elif not _is_value(value):
                    errors[name] = "not a value"
                else:
                    errors.pop(name, None)
                    yield name, unit, value
        except Exception as e:
            errors[_name(source)] = describe(e)


def _is_value(value):
    if isinstance(value, (bool, str)):  # a bool is no int on MicroPython
        return True
    return isinstance(value, (int, float)) and value - value == 0


def _name(source):
    return getattr(source, "__name__", type(source).__name__)


def describe(error):
    """An exception in one line."""
    return printable("%s: %s" % (type(error).__name__, error))


def literal(value):
    """A value as JSON."""
    if isinstance(value, (bool, str)):
        return json.dumps(value)
    # Seven digits: the precision of a 32-bit float.
    return ("%d" if isinstance(value, int) else "%.7g") % value


_HEAD = '[{"bn":"urn:dev:mac:%s:","bt":%s,"seq":%d,"epoch":%d,'


def pack(device, clock, seq, epoch, readings):
    """Returns the SenML pack of `readings` as bytes, None if there are none. The first record has the base name, the
    base time `clock`, and the message's sequence number."""
    head = _HEAD % (device, clock, seq, epoch)
    records = []
    for name, unit, value in readings:
        unit = '"u":%s,' % json.dumps(unit) if unit else ""
        kind = "vb" if isinstance(value, bool) else "vs" if isinstance(value, str) else "v"
        records.append('%s"n":%s,%s"%s":%s}' % (head, json.dumps(name), unit, kind, literal(value)))
        head = "{"
    return (",".join(records) + "]").encode() if records else None


def dating(device, clock, seq, epoch, boot, up):
    """Returns the pack without readings, as bytes, that tells when undated ones were made: those of the numbers from
    `boot` up to its own. At the time `clock` the uptime was `up`, a text in s."""
    return ((_HEAD + '"boot":%d,"up":%s}]') % (device, clock, seq, epoch, boot, up)).encode()
