"""Landing files of an invented fleet, as a collector writes them."""

import itertools

from inflight_tools.fleet.collect.line import line

ROOT = "inflight"
MEASUREMENTS = 3  # in a message
REPEATED = 50  # every 50th message is delivered twice
PACE_S = 10  # between two messages of a device
SIZE = 16 << 20  # of a file
_BEGAN = 1_760_000_000_000  # ms since 1970
_MAX_PAYLOAD = 1 << 20


def _template():
    """A %-format of a line, byte for byte as the collector writes it. Five times as fast as calling line()."""
    pack = (
        '[{"bn":"urn:dev:mac:%s:","bt":%s,"seq":%s,"epoch":7,"n":"temperature","u":"Cel","v":%s},'
        '{"n":"humidity","u":"%%RH","v":%s},{"n":"battery","u":"V","v":%s}]'
    )
    marks = "<device>", "<bt>", "<seq>", "<temperature>", "<humidity>", "<battery>"
    whole = line(0, "collector-0", f"{ROOT}/<device>/telemetry", 1, False, False, (pack % marks).encode(), _MAX_PAYLOAD)
    text = whole.decode().replace("%", "%%").replace('{"at":0,', '{"at":%(at)d,')
    for name, form in zip(marks, ("s", ".3f", "d", ".7g", ".7g", ".7g"), strict=True):
        text = text.replace(name, f"%({name[1:-1]}){form}")
    return text


def deliveries(messages, devices, before=0, began=_BEGAN):
    """Yields the lines, as bytes, of `messages` messages; the devices publish in turn. `before`: number of the first
    message. began: when number 0 was received, in ms since 1970."""
    template = _template()
    for n in range(before, before + messages):
        seq, device = divmod(n, devices)
        at = began + seq * PACE_S * 1000 + device * PACE_S * 1000 // devices
        text = template % {
            "at": at,
            "device": f"{device:012x}",
            "bt": at / 1000 - (n * 7919 % 1900) / 1000,
            "seq": seq,
            "temperature": 20 + (n * 31 % 997) / 100,
            "humidity": 40 + (n * 17 % 1999) / 100,
            "battery": 3 + (n * 13 % 499) / 1000,
        }
        encoded = text.encode()
        yield encoded
        if n % REPEATED == 0:
            yield encoded.replace(b'"dup":false', b'"dup":true', 1)


def land(folder, lines, size=SIZE):
    """Writes `lines` into files of `size` bytes in `folder`. Returns (deliveries, bytes)."""
    folder.mkdir(parents=True, exist_ok=True)
    count = total = 0
    first = len(list(folder.iterdir()))
    for n in itertools.count(first):
        batch, length = [], 0
        for one in lines:
            batch.append(one)
            length += len(one)
            if length >= size:
                break
        if not batch:
            return count, total
        (folder / f"collector-0-{_BEGAN}-{n:06}.ndjson").write_bytes(b"".join(batch))
        count, total = count + len(batch), total + length


def bytes_below(folder):
    """Bytes of all Parquet files below `folder`."""
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))
