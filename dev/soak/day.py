"""Hours of a fleet in bad weather, in minutes: the clients' own code on a virtual clock, everything in one process."""

import asyncio
import gc
import random
import sys
from collections import Counter
from dataclasses import dataclass, field

from .clock import virtual_time
from .device import WAYS, Device
from .result import Row
from .weather import KINDS, Weather
from .world import Broker, World

_BROKER = 1  # its port
_SETTLE_S = 180
_OUTAGE_S = (5, 900)
_AWAY_S = (0.1, 120)


@dataclass
class Day:
    """What came of it."""

    rows: dict = field(default_factory=dict)  # kind of network: Row
    outages: int = 0
    restarts: int = 0
    lives: int = 0  # devices that started anew,
    cuts: int = 0  # after so many power cuts
    commands: Row = field(default_factory=Row)  # the other way, at QoS 2
    violations: list = field(default_factory=list)  # of the protocol
    damaged: int = 0  # records that mounts found damaged
    memory: list = field(default_factory=list)  # blocks that Python had allocated, every half an hour

    def growth(self):
        """Blocks after two hours, and the most in the last quarter. (0, 0) of a day that is too short to tell."""
        if len(self.memory) < 16:
            return 0, 0
        return self.memory[3], max(self.memory[-len(self.memory) // 4 :])

    def problems(self):
        found = [problem for kind, row in self.rows.items() for problem in row.problems(kind)]
        found += self.commands.problems("commands") + self.violations
        if self.damaged:
            found.append(f"{self.damaged} records damaged, and only power was cut")
        early, late = self.growth()
        if late > early * 1.05:
            found.append(f"memory grew from {early} to {late} blocks")
        return found


class _Fleet:
    def __init__(self, devices, interval, seed, ways):
        self.random = random.Random(seed)
        random.seed(seed)  # what clients draw their pauses from
        self.world, self.broker = World(), Broker()
        self.world.ports[_BROKER] = self.broker.serve
        self.weathers = [Weather(kind, self._connect, self.random) for kind in KINDS]
        for port, weather in enumerate(self.weathers, _BROKER + 1):
            self.world.ports[port] = weather.serve
        self.devices = [self._device(i, interval, ways[i % len(ways)]) for i in range(devices)]
        self.sent = Counter()

    def _connect(self):
        return self.world.connect(_BROKER)

    def _device(self, i, interval, way):
        place = i % len(self.weathers)
        qos = 1 + i // len(self.weathers) % 2
        kind = self.weathers[place].kind
        return Device(f"device{i:04}", kind, qos, _BROKER + 1 + place, interval, self.random, way)

    async def restarts(self, day):
        """Devices start anew."""
        while True:
            await asyncio.sleep(self.random.uniform(0, 2000) / len(self.devices))
            self.random.choice(self.devices).restart()
            day.lives += 1

    async def misfortunes(self, day):
        """The broker goes away and comes back; so does an access point."""
        loop, draw = asyncio.get_running_loop(), self.random
        while True:
            await asyncio.sleep(draw.uniform(300, 1500))
            if draw.random() < 0.5:
                day.restarts += 1
                del self.world.ports[_BROKER]
                self.broker.restart()
                await asyncio.sleep(draw.uniform(*_AWAY_S))
                self.world.ports[_BROKER] = self.broker.serve
            else:
                day.outages += 1
                weather = draw.choice(self.weathers)
                weather.outage()
                loop.call_later(draw.uniform(*_OUTAGE_S), weather.join)

    async def command(self, interval):
        """Messages of QoS 2 to devices, numbered for each."""
        while True:
            await asyncio.sleep(interval)
            name = self.random.choice(self.devices).name
            if self.broker.command(name, b"%d" % (self.sent[name] + 1)):
                self.sent[name] += 1

    def clear_up(self):
        self.world.ports[_BROKER] = self.broker.serve
        for weather in self.weathers:
            weather.clear_up()

    def judge(self, day):
        day.violations += self.broker.violations
        for weather in self.weathers:
            day.rows[weather.kind] = Row()
            day.rows[weather.kind].met(weather.connections)
        for device in self.devices:
            day.rows[device.kind].add(device, self.broker.seen[device.name])
            day.cuts += device.cuts
            day.damaged += device.damaged
            self._judge_commands(day, device.commands, self.sent[device.name], self.broker.excused[device.name])

    def _judge_commands(self, day, tally, sent, excused):
        day.commands.accepted += sent
        day.commands.twice += tally.repeated
        for number in excused:
            tally.add(number)
        day.commands.lost += tally.missing(sent)


async def _memory(day):
    while True:
        await asyncio.sleep(1800)
        gc.collect()
        day.memory.append(sys.getallocatedblocks())


async def _live(fleet, day, hours, interval):
    devices = [asyncio.ensure_future(device.run(True)) for device in fleet.devices]
    others = [fleet.misfortunes(day), fleet.restarts(day), fleet.command(interval / 4), _memory(day)]
    others = [asyncio.ensure_future(other) for other in others]
    await asyncio.sleep(hours * 3600)
    for task in others:
        task.cancel()
    for device in fleet.devices:
        device.finish()
    fleet.clear_up()
    await asyncio.sleep(_SETTLE_S)
    fleet.judge(day)
    for task in devices:
        task.cancel()
    await asyncio.gather(*devices, *others, return_exceptions=True)


def live(hours, devices, interval, seed, ways=WAYS):
    """A Day of `devices` that publish every `interval` seconds and live in these ways."""
    day = Day()
    with virtual_time() as loop:
        fleet = _Fleet(devices, interval, seed, ways)
        with fleet.world.reached():
            loop.run_until_complete(_live(fleet, day, hours, interval))
    return day
