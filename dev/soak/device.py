"""A virtual device: the asyncio client with a journal in RAM that outlives a restart, and numbers what it publishes."""

import asyncio
import json

from dev.reference.oracle import Tally
from inflight import AsyncClient, Journal, RamFlash
from inflight.journal import OutboxFull

ROOT = "demo"


class Device:
    """Publishes at `qos` every `interval` seconds; what it accepted has the numbers 1 to `accepted`. `commands` has a
    Tally of the numbers that it was sent."""

    def __init__(self, name, kind, qos, port, interval, random, **options):
        self.name, self.kind, self.qos = name, kind, qos
        self.accepted = self.full = 0
        self.errors = 0
        self.quiet = False  # publishes nothing new
        self.commands = Tally()
        self._interval, self._random = interval, random
        self._topic = f"{ROOT}/{name}/telemetry"
        self._flash = RamFlash(8, 4096)
        self._settings = {"timeout_ms": 8_000, "keepalive": 10, "backoff_ms": (500, 10_000), "port": port, **options}
        self._start(8)

    def _start(self, window):
        self._leaves = False
        settings = {"on_error": self._note, "max_inflight": window, **self._settings}
        self.client = AsyncClient("127.0.0.1", self.name, Journal(self._flash), **settings)

    def restart(self):
        """The program ends when it has nothing under way, and starts with another window."""
        self._leaves = True

    def _note(self, error):
        self.errors += 1

    def _obey(self, message):
        self.commands.add(int(message.payload))

    @property
    def settled(self):
        return self.client.connected and not self.client.pending

    async def run(self, subscribe=False):
        """Until it is cancelled."""
        await self._live(subscribe)
        while True:
            self._start(self._random.choice((1, 4, 20)))
            await self._live(subscribe)

    async def _live(self, subscribe):
        if subscribe:
            await self.client.subscribe(f"{ROOT}/{self.name}/command", 2, self._obey)
        async with self.client:
            await asyncio.sleep(self._random.uniform(0, self._interval))
            while not self._leaves:
                if not self.quiet:
                    await self._publish()
                await asyncio.sleep(self._interval * self._random.uniform(0.5, 1.5))

    async def _publish(self):
        number = self.accepted + 1
        try:
            await self.client.publish(self._topic, json.dumps({"seq": number, "epoch": 0}), self.qos)
        except OutboxFull:
            self.full += 1
        else:
            self.accepted = number
