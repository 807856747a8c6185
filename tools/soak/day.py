"""Simulates a fleet in bad networks for hours of virtual time: the real clients in one process, on a virtual clock."""

import asyncio
import gc
import random
import sys
from collections import Counter
from dataclasses import dataclass, field

from tools.clock import virtual_time
from tools.soak.device import WAYS
from tools.soak.fleet import Fleet
from tools.soak.network import Broker, Network
from tools.soak.result import Row

_BROKER = 1  # its port
_SETTLE_S = 180
_OUTAGE_S = (5, 900)
_AWAY_S = (0.1, 120)


@dataclass
class Day:
    """The results of a simulated day."""

    rows: dict = field(default_factory=dict)  # kind of network: Row
    outages: int = 0
    broker_restarts: int = 0
    device_restarts: int = 0
    cuts: int = 0  # power cuts among these
    commands: Row = field(default_factory=Row)  # messages to the devices, at QoS 2
    violations: list = field(default_factory=list)  # of the protocol
    damaged: int = 0  # damaged records that mounts found
    memory: list = field(default_factory=list)  # blocks allocated by Python, every half an hour

    def growth(self):
        """Blocks after two hours, and the maximum in the last quarter; (0, 0) if the day is too short."""
        if len(self.memory) < 16:
            return 0, 0
        return self.memory[3], max(self.memory[-len(self.memory) // 4 :])

    def problems(self):
        found = [problem for kind, row in self.rows.items() for problem in row.problems(kind)]
        found += self.commands.problems("commands") + self.violations
        if self.damaged:
            found.append(f"{self.damaged} damaged records after mere power cuts")
        early, late = self.growth()
        if late > early * 1.05:
            found.append(f"memory grew from {early} to {late} blocks")
        return found


class _Fleet(Fleet):
    def __init__(self, devices, interval, seed, ways):
        random.seed(seed)  # for the clients' jitter
        self.network, self.broker = Network(), Broker()
        super().__init__(lambda: self.network.connect(_BROKER), random.Random(seed))
        ports = range(_BROKER + 1, _BROKER + 1 + len(self.proxies))
        self.network.ports = {_BROKER: self.broker.serve}
        self.network.ports |= {port: proxy.serve for port, proxy in zip(ports, self.proxies, strict=True)}
        for number in range(devices):
            self.add("device", number, ports, interval, ways)
        self.sent = Counter()

    async def restart_devices(self, day):
        while True:
            await asyncio.sleep(self.random.uniform(0, 2000) / len(self.devices))
            self.random.choice(self.devices).restart()
            day.device_restarts += 1

    async def cause_faults(self, day):
        """Restarts the broker or switches an access point off for a while, at random."""
        loop, rng = asyncio.get_running_loop(), self.random
        while True:
            await asyncio.sleep(rng.uniform(300, 1500))
            if rng.random() < 0.5:
                day.broker_restarts += 1
                del self.network.ports[_BROKER]
                self.broker.restart()
                await asyncio.sleep(rng.uniform(*_AWAY_S))
                self.network.ports[_BROKER] = self.broker.serve
            else:
                day.outages += 1
                proxy = rng.choice(self.proxies)
                proxy.outage()
                loop.call_later(rng.uniform(*_OUTAGE_S), proxy.join)

    async def command(self, interval):
        """Sends QoS 2 messages to devices, numbered for each device."""
        while True:
            await asyncio.sleep(interval)
            name = self.random.choice(self.devices).name
            if self.broker.command(name, b"%d" % (self.sent[name] + 1)):
                self.sent[name] += 1

    def clear(self):
        self.network.ports[_BROKER] = self.broker.serve
        super().clear()

    def judge(self, day):
        day.violations += self.broker.violations
        day.rows = self.rows(lambda device: self.broker.seen[device.name])
        for device in self.devices:
            day.cuts += device.cuts
            day.damaged += device.damaged
            tally, sent = device.commands, self.sent[device.name]
            day.commands.accepted += sent
            day.commands.twice += tally.repeated
            for number in self.broker.excused[device.name]:
                tally.add(number)
            day.commands.lost += tally.missing(sent)


async def _memory(day):
    while True:
        await asyncio.sleep(1800)
        gc.collect()
        day.memory.append(sys.getallocatedblocks())


async def _live(fleet, day, hours, interval):
    devices = [asyncio.ensure_future(device.run(True)) for device in fleet.devices]
    others = [fleet.cause_faults(day), fleet.restart_devices(day), fleet.command(interval / 4), _memory(day)]
    others = [asyncio.ensure_future(other) for other in others]
    await asyncio.sleep(hours * 3600)
    for task in others:
        task.cancel()
    fleet.clear()
    await asyncio.sleep(_SETTLE_S)
    fleet.judge(day)
    for task in devices:
        task.cancel()
    await asyncio.gather(*devices, *others, return_exceptions=True)


def simulate(hours, devices, interval, seed, ways=WAYS):
    """Returns the Day of `devices` that publish every `interval` seconds and behave in these ways."""
    day = Day()
    with virtual_time() as loop:
        fleet = _Fleet(devices, interval, seed, ways)
        with fleet.network.installed():
            loop.run_until_complete(_live(fleet, day, hours, interval))
    return day
