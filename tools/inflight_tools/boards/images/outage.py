"""How long an outage a device bridges: its journal is filled as it would fill it, by the library itself, in RAM."""

from inflight import Client, Journal, OutboxFull, RamFlash
from inflight_tools.settings import firmware_module

_BLOCK = 4096
_READINGS = [(f"temperature-{k}", "Cel", -21.53) for k in range(3)]  # of a board without `sensors`, too
_HEALTH = bytes(620)
_EPOCH = 0xFFFFFFFF  # the longest


def bridged_s(config) -> int:
    """Seconds without a network until the journal of a device is full, whose checked configuration is `config`: of
    readings, three or one of each sensor, and of health messages, which a device that sleeps does not write then."""
    telemetry = firmware_module("telemetry")
    journal = Journal(RamFlash(config.journal_kb * 1024 // _BLOCK, _BLOCK))
    client = Client("broker.example", "device", journal)
    base = f"{config.root}/{config.device}/"
    readings = [_READINGS[0]] * len(config.sensors) if config.sensors else _READINGS
    now = 0
    due = {"telemetry": 0, "health": 0}
    every = {"telemetry": config.sleep_ms or config.interval_ms, "health": config.health_ms}
    if config.sleep_ms:
        del due["health"]
    try:
        while True:
            kind = min(due, key=lambda name: due[name])
            now = due[kind]
            due[kind] += every[kind]
            payload = telemetry.pack(config.device, "1735689600", journal.next_seq, _EPOCH, readings)
            client.publish(base + kind, payload if kind == "telemetry" else _HEALTH, config.qos)
    except OutboxFull:
        return now // 1000


def told(seconds: int) -> str:
    """That time for people, rounded down: "11 minutes"."""
    for name, unit in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} seconds"
