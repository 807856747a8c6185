"""The latency of telemetry, in ms: percentiles as a dict with p50, p95, p99; None without any."""

import itertools
from operator import itemgetter

from .sketches import PERCENTILES, percentiles

_NAMES = ("p50", "p95", "p99")
_OF_A_TIME = f"""
SELECT {{0}}, quantile_disc(ms, {list(PERCENTILES)}) FROM (
    SELECT device, greatest(0, epoch_us(received) - epoch_us(made)) / 1000 AS ms
    FROM raw WHERE first AND seq IS NOT NULL AND made IS NOT NULL)
GROUP BY {{0}}
"""


def _named(found):
    return found and dict(zip(_NAMES, found, strict=True))


def of_fleet(database):
    if database.ranged:
        return _named(next((found for _, found in database.run(_OF_A_TIME.format("true")).fetchall()), None))
    return _named(percentiles(database.values("SELECT latency FROM ledger WHERE latency IS NOT NULL")))


def of_devices(database, names=None):
    """{device: its latency} of the devices `names`, None: of all. A device without any may be missing."""
    mine, values = ("true", ()) if names is None else ("list_contains(?, device)", (list(names),))
    if database.ranged:
        found = database.tuples(f"FROM ({_OF_A_TIME.format('device')}) WHERE {mine}", *values)
        return {device: _named(told) for device, told in found}
    sketches = f"SELECT device, latency FROM ledger WHERE {mine} AND latency IS NOT NULL ORDER BY device"
    of_each = itertools.groupby(database.tuples(sketches, *values), itemgetter(0))
    return {device: _named(percentiles(sketch for _, sketch in rows)) for device, rows in of_each}
