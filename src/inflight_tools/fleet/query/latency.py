"""The latency of telemetry, in ms: percentiles as a dict with p50, p95, p99; None without any."""

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


def of_devices(database, names):
    """{device: its latency}"""
    if database.ranged:
        found = dict(database.run(_OF_A_TIME.format("device")).fetchall())
        return {name: _named(found.get(name)) for name in names}
    sketches = "SELECT device, latency FROM ledger WHERE list_contains(?, device) AND latency IS NOT NULL"
    found = database.groups(sketches, list(names))
    return {name: _named(percentiles(found.get(name, ()))) for name in names}
