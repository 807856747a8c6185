"""A virtual device: the asyncio client with a journal in RAM, that numbers what it publishes."""

import asyncio
import json

from inflight import AsyncClient, Journal, RamFlash
from inflight.journal import OutboxFull
from reference.oracle import Tally

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
        self.journal = Journal(RamFlash(8, 4096))
        settings = {
            "timeout_ms": 8_000,
            "keepalive": 10,
            "backoff_ms": (500, 10_000),
            "on_error": self._note,
            **options,
        }
        self.client = AsyncClient("127.0.0.1", name, self.journal, port=port, **settings)

    def _note(self, error):
        self.errors += 1

    def _obey(self, message):
        self.commands.add(int(message.payload))

    @property
    def settled(self):
        return self.client.connected and not self.client.pending

    async def run(self, subscribe=False):
        """Until it is cancelled."""
        if subscribe:
            await self.client.subscribe(f"{ROOT}/{self.name}/command", 2, self._obey)
        async with self.client:
            await asyncio.sleep(self._random.uniform(0, self._interval))
            while True:
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
