"""A virtual device: the asyncio client with a journal that survives restarts. It numbers its messages."""

import asyncio
import json
import re
from dataclasses import dataclass

from inflight import AsyncClient, Journal, RamFlash
from inflight.journal.journal import OutboxFull
from nor import NorFlash, PowerCut, after, before, mixed, scattered
from tools.reference.oracle import Tally
from tools.soak.excused import Excused

ROOT = "inflight"
_WINDOWS = (1, 4, 20)
_NUMBER = re.compile(rb'"seq": (\d+)')
_CUT_WITHIN = 12  # the power is cut at one of the next so many flash operations


@dataclass(frozen=True)
class Way:
    """How a device behaves. clean: values of clean_session, one is chosen at each start; when_full: the journal is
    small and fills up; power_cuts: the flash has a volatile cache, and some restarts are power cuts; burst: how many
    messages it sometimes publishes at a time."""

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
    """Publishes at `qos` every `interval` seconds. Accepted messages have the numbers 1 to `accepted`; those in
    `excused` need not arrive. `commands`: a Tally of the commands that it received. `damaged`: damaged records that its
    mounts found."""

    def __init__(self, name, kind, qos, port, interval, random, way=Way(), **options):
        self.name, self.kind, self.qos = name, kind, qos
        self.when_full = way.when_full
        self.accepted = 0
        self._newest = 0  # the number of the last publish()
        self.cuts = self.damaged = 0
        self.paused = False  # publishes nothing new
        self.commands = Tally()
        self._last_command = self._cut_after = None  # the last command; the last one before a power cut
        self._interval, self._random, self._way = interval, random, way
        self._topic = f"{ROOT}/{name}/telemetry"
        self._flash = way.flash()
        self._settings = {"timeout_ms": 8_000, "keepalive": 10, "backoff_ms": (500, 10_000), "port": port, **options}
        self._excused = Excused()
        self._dropped = 0  # before the last restart
        self._start(8)

    def _start(self, window):
        self._stopping = False
        journal = Journal(self._flash)
        self.damaged += journal.found_damaged
        clean = self._random.choice(self._way.clean)
        self.client: AsyncClient = AsyncClient(
            "127.0.0.1",
            self.name,
            journal,
            on_error=lambda error: None,
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
        # Every packet passes data_to_send(). The journal may record before that that a message will be sent.
        offer = session.data_to_send

        def data_to_send(now):
            if session.connected:
                self._excused.may_leave(self._newest)
            n = offer(now)
            for number in _NUMBER.findall(session.view[session.out_at : session.out_at + n]):
                self._excused.offered(int(number))
            return n

        session.data_to_send = data_to_send

    def restart(self):
        """Restarts the program with other settings, in an orderly way or by a power cut within a flash operation."""
        if not self._way.power_cuts or self._random.random() < 0.5:
            self._stopping = True
            return
        seed = self._random.randrange(1000)
        how = self._random.choice((before, after, scattered(seed), mixed(seed)))
        self._flash.cut_at(self._random.randrange(_CUT_WITHIN), how, lost=seed)

    def finish(self):
        """Stops publishing and cancels a pending power cut."""
        self.paused = True
        if self._way.power_cuts:
            self._flash.cut_at(-1, None)

    def _on_command(self, message):
        number = int(message.payload)
        if not (message.redelivered and number == self._cut_after):
            self.commands.add(number)
        self._last_command = number

    @property
    def settled(self):
        return self.client.connected and not self.client.pending

    @property
    def dropped(self):
        """How many messages a full journal dropped or a session's end discarded, by the client's own count."""
        return self._dropped + self.client.counters()["dropped"]

    @property
    def excused(self):
        return self._excused.numbers

    async def run(self, subscribe=False):
        while True:
            try:
                await self._run_once(subscribe)
                self._start_anew()
            except PowerCut:  # perhaps during the mount
                self.cuts += 1
                self._flash.power_on()
                self._cut_after = self._last_command
                self._start_anew()

    def _start_anew(self):
        dropped = self.dropped
        self._start(self._random.choice(_WINDOWS))
        self._dropped = dropped

    async def _run_once(self, subscribe):
        if subscribe:
            await self.client.subscribe(f"{ROOT}/{self.name}/command", 2, self._on_command)
        async with self.client:
            await asyncio.sleep(self._random.uniform(0, self._interval))
            while not self._stopping:
                if self._way.power_cuts and self._flash.off:
                    raise PowerCut
                if not self.paused:
                    for _ in range(self._way.burst if self._random.random() < 0.1 else 1):
                        await self._publish()
                await asyncio.sleep(self._interval * self._random.uniform(0.5, 1.5))

    async def _publish(self):
        number = self._newest = self.accepted + 1
        try:
            mid = await self.client.publish(self._topic, json.dumps({"seq": number, "epoch": 0}), self.qos)
        except OutboxFull:
            pass
        except PowerCut:  # within publish(): it may have been accepted
            self.accepted = number
            self._excused.doubted(number)
            raise
        else:
            self.accepted = number
            if mid:
                self._excused.accepted(mid, number)
