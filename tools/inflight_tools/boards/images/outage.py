"""How long an outage a device bridges: its journal is filled as it would fill it, by the library itself, in RAM."""

import itertools
import sys

from inflight import Client, Journal, OutboxFull, RamFlash
from inflight_tools.settings import firmware_module

_BLOCK = 4096
_READINGS = [(f"temperature-{k}", "Cel", -21.53) for k in range(3)]  # of a board without `sensors`, too
_HEALTH = bytes(420)  # as it is without a connection
_EPOCH = 0xFFFFFFFF  # the longest
_TIME = 1_735_689_600


class _Device:
    """What the firmware's Batch knows of an application, and of its journal: that counts all readings, though only the
    last message of each batch is published."""

    synchronised = True

    def __init__(self, config, journal):
        self.config = config
        self.journal = self
        self.cost, self.fits, self.epoch = journal.cost, journal.fits, _EPOCH
        self.next_seq = self.now_s = 0

    def moment(self):
        return _TIME + self.now_s, str(_TIME + self.now_s)


def _published(device, readings, topic):
    """For each reading, yields the messages that stay: those that are gathered, as the last of them is."""
    telemetry, batch_of = sys.modules["telemetry"], firmware_module("batch").Batch
    config = device.config
    gathers = config.batch > 1 and config.qos < 2 and not config.expiry_s and config.when_full != "oldest"
    in_turn = config.report_every if config.sleep_ms else 1  # so many wakes: the first one reports, and gathers nothing
    batch, last = batch_of(device, topic), b""
    for number in itertools.count():
        alone = not gathers or (in_turn > 1 and number % in_turn == 0)
        if alone:
            done = [last, telemetry.pack(config.device, device.moment()[1], device.next_seq, _EPOCH, readings)]
            batch, last = batch_of(device, topic), b""
        else:
            payload = batch.payload(readings)
            done = [last] if len(payload) <= len(last) else []
            batch.published(0)
            last = payload
        device.next_seq += 1
        yield [message for message in done if message]


def bridged_s(config) -> int:
    """Seconds without a network until the journal of a device is full, whose checked configuration is `config`: of
    readings, three or one of each sensor, and of health messages, which a device that sleeps does not write then."""
    telemetry = sys.modules.setdefault("telemetry", firmware_module("telemetry"))
    journal = Journal(RamFlash(config.journal_kb * 1024 // _BLOCK, _BLOCK))
    client = Client("broker.example", "device", journal)
    device = _Device(config, journal)
    base = f"{config.root}/{config.device}/"
    readings = _READINGS
    if config.sensors:
        readings = [(f"temperature-{k}", *_READINGS[0][1:]) for k in range(len(config.sensors))]
    every_s = (config.sleep_ms or config.interval_ms) / 1000
    health_s = 0 if config.sleep_ms else max(config.health_ms, telemetry.HEALTH_MS) / 1000
    told = 0
    now = 0.0
    try:
        for messages in _published(device, readings, base + "telemetry"):
            now += every_s
            device.now_s = int(now)
            for payload in messages:
                client.publish(base + "telemetry", payload, config.qos)
            if health_s and now // health_s > told:
                told = now // health_s
                client.publish(base + "health", _HEALTH, 1)
    except OutboxFull:
        pass
    return int(now)


def told(seconds: int) -> str:
    """That time for people, rounded down: "11 minutes"."""
    for name, unit in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} seconds"
