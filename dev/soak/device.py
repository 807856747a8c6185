"""A virtual device: the asyncio client with a journal that outlives a restart, and numbers what it publishes."""

import asyncio
import json
import re
from dataclasses import dataclass

from dev.reference.oracle import Tally
from inflight import AsyncClient, Journal, RamFlash
from inflight.journal import OutboxFull
from nor import NorFlash, PowerCut, after, before, mixed, scattered

from .excused import Excused

ROOT = "demo"
_WINDOWS = (1, 4, 20)
_NUMBER = re.compile(rb'"seq": (\d+)')
_CUT_WITHIN = 12  # operations of the flash


@dataclass(frozen=True)
class Way:
    """How a device lives. clean: each life draws its clean_session from these; when_full: with a journal that gets
    full; power_cuts: on flash with a volatile cache, and its power may go in place of a restart; burst: so many
    messages at a time, now and then."""

    clean: tuple = (False,)
    when_full: str | None = None
    power_cuts: bool = False
    burst: int = 1

    def flash(self):
        if self.power_cuts:
            return NorFlash(8, 4096, cache=True)
        return RamFlash(3, 1024) if self.when_full else RamFlash(8, 4096)


WAYS = (
    Way(power_cuts=True, burst=10),
    Way(clean=(True,), power_cuts=True),
    Way(clean=(False, True), power_cuts=True),
    Way(when_full="oldest", burst=10),
    Way(when_full="newest", burst=10),
)


class Device:
    """Publishes at `qos` every `interval` seconds; what it accepted has the numbers 1 to `accepted`, of which `excused`
    need not arrive. `commands` has a Tally of the numbers that it was sent, `damaged` counts what its mounts found."""

    def __init__(self, name, kind, qos, port, interval, random, way=Way(), **options):
        self.name, self.kind, self.qos = name, kind, qos
        self.when_full = way.when_full
        self.accepted = self.full = 0
        self._newest = 0  # the number of the last publish()
        self.errors = self.cuts = self.damaged = 0
        self.quiet = False  # publishes nothing new
        self.commands = Tally()
        self._heard = self._cut_after = None  # the command that it heard last; that before the power went
        self._interval, self._random, self._way = interval, random, way
        self._topic = f"{ROOT}/{name}/telemetry"
        self._flash = way.flash()
        self._settings = {"timeout_ms": 8_000, "keepalive": 10, "backoff_ms": (500, 10_000), "port": port, **options}
        self._excused = Excused()
        self._dropped = 0  # in earlier lives
        self._start(8)

    def _start(self, window):
        self._leaves = False
        journal = Journal(self._flash)
        self.damaged += journal.damaged
        clean = self._random.choice(self._way.clean)
        self.client = AsyncClient(
            "127.0.0.1",
            self.name,
            journal,
            on_error=self._note,
            on_connect=lambda present: self._excused.session_begun(self.client.is_pending, clean),
            on_complete=self._excused.completed,
            max_inflight=window,
            clean_session=clean,
            when_full=self.when_full,
            **self._settings,
        )
        self._excused.life_begun(self.client.is_pending, window, clean)
        self._watch(self.client.session)

    def _watch(self, session):
        # All that leaves is offered in one place; the journal may say before that a message is about to leave.
        offer, out = session.data_to_send, session.out

        def data_to_send(now):
            if session.connected:
                self._excused.may_leave(self._newest)
            n = offer(now)
            for number in _NUMBER.findall(out.view[out.at : out.at + n]):
                self._excused.offered(int(number))
            return n

        session.data_to_send = data_to_send

    def restart(self):
        """The program ends when it has nothing under way, or within an operation of the flash; it starts with other
        settings."""
        if not self._way.power_cuts or self._random.random() < 0.5:
            self._leaves = True
            return
        seed = self._random.randrange(1000)
        how = self._random.choice((before, after, scattered(seed), mixed(seed)))
        self._flash.cut_at(self._random.randrange(_CUT_WITHIN), how, lost=seed)

    def finish(self):
        """Publishes nothing new, and keeps its power."""
        self.quiet = True
        if self._way.power_cuts:
            self._flash.cut_at(-1, None)

    def _note(self, error):
        self.errors += 1

    def _obey(self, message):
        number = int(message.payload)
        if not (message.redelivered and number == self._cut_after):
            self.commands.add(number)
        self._heard = number

    @property
    def settled(self):
        return self.client.connected and not self.client.pending

    @property
    def dropped(self):
        """How many messages a full journal dropped, and sessions took with them, by the client's own count."""
        return self._dropped + self.client.counters()["dropped"]

    @property
    def excused(self):
        return self._excused.numbers

    async def run(self, subscribe=False):
        """Until it is cancelled."""
        while True:
            try:
                await self._live(subscribe)
                self._start_anew()
            except PowerCut:  # in the mount, perhaps
                self.cuts += 1
                self._flash.power_on()
                self._cut_after = self._heard
                self._start_anew()

    def _start_anew(self):
        dropped = self.dropped
        self._start(self._random.choice(_WINDOWS))
        self._dropped = dropped

    async def _live(self, subscribe):
        if subscribe:
            await self.client.subscribe(f"{ROOT}/{self.name}/command", 2, self._obey)
        async with self.client:
            await asyncio.sleep(self._random.uniform(0, self._interval))
            while not self._leaves:
                if self._way.power_cuts and self._flash.off:
                    raise PowerCut
                if not self.quiet:
                    await self._publish()
                await asyncio.sleep(self._interval * self._random.uniform(0.5, 1.5))

    async def _publish(self):
        for _ in range(self._way.burst if self._random.random() < 0.1 else 1):
            await self._publish_one()

    async def _publish_one(self):
        number = self._newest = self.accepted + 1
        try:
            mid = await self.client.publish(self._topic, json.dumps({"seq": number, "epoch": 0}), self.qos)
        except OutboxFull:
            self.full += 1
        except PowerCut:  # within publish(): it may have been accepted
            self.accepted = number
            self._excused.doubted(number)
            raise
        else:
            self.accepted = number
            if mid:
                self._excused.accepted(mid, number)
