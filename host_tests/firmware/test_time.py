"""The clock against whoever answers for the time server: random histories of days, on virtual time. A case is its seed.

Hours in which anything happens end with one in which only right answers come. Then the device knows the time, is
connected, and has delivered all that it has read. A reading is dated as exactly as its device can know the time."""

import random
import socket
import sys

import pytest

import clock as sntp
from built import TIME
from codes import DEEP_SLEEP, NO_AP, ONLINE, POWER_ON, SOFT, WATCHDOG
from host_tests.clients import cut_power
from host_tests.firmware.conftest import Board, Counting, gathered, packs
from host_tests.firmware.test_wake_pin import PIN, pin  # noqa: F401 (a fixture)
from host_tests.thorough import more
from inflight import RamFlash

HOUR, DAY, FOREVER = 3_600, 86_400, 1e12
WINDOW = 900  # an answer that is farther from the known time is doubted
DRIFT = 0.01  # of the clock in a sleep


def dated(broker):
    """{count: time} of all readings, as the pipeline dates them; None: nobody has told the time."""
    heads = [pack[0] for m in broker.arrived if m.topic.endswith("telemetry") for pack in packs(m)]
    datings = [head for head in heads if "boot" in head]
    found = {}
    for head in heads:
        if "up" in head and "boot" not in head:
            of = [one for one in datings if one["boot"] <= head["seq"] < one["seq"] and one["up"] >= head["up"]]
            head["bt"] = of[-1]["bt"] - of[-1]["up"] + head["up"] if of else None
        found[head.get("v")] = head["bt"]
    return found


class World(Board):
    """A board, its device, and who answers for the time server. truth: the time in s since 1970; time(): what the
    board's clock says; bound: how wrong that of the device can be."""

    app, joins = None, ONLINE

    def __init__(self, make, clock, port, seed, wake_pin):
        super().__init__()
        self.random = random.Random(seed)
        choice = self.random.choice
        self._clock, self._pin, self._start = clock, wake_pin, TIME + choice(range(90)) * DAY - clock.now
        self.valid = self.truth - choice((1, 200)) * DAY, self.truth + choice((90, 800)) * DAY  # the certificate
        self._runs_on = choice((True, False))  # the clock, over a restart
        self.sleep_s, every = choice((0, 0, 0, 300, 1800, HOUR)), choice((1, 1, 4))
        self.period = self.sleep_s * every or 600
        self.most = max(2, min(HOUR // self.period, 7)) if self.sleep_s else 55  # doubts
        fields = {"interval_ms": 600_000, "health_ms": HOUR * 1000, "tls_ca": "ca.der"}
        if choice((True, True, False)):
            fields.update(wifi_ssid="net", wifi_key="the-wifi-key")
        if self.sleep_s:
            pin = {"wake_on_pin": PIN} if self._runs_on else {}
            fields.update(sleep_ms=self.sleep_s * 1000, report_every=every, awake_ms=30_000, **pin)
        flash, make.backoff_ms = RamFlash(24, 4096), (1_000, 60_000)
        self._make = lambda: make(port, flash, board=self, **fields)
        self.made, self._undated = [], []  # [time, how wrong it can be] of each reading
        self.start(POWER_ON)

    @property
    def truth(self):
        return self._start + self._clock.now

    def time(self):
        return int(self._clock.now + self._ahead)

    def set_clock(self, t):
        self._ahead = t - self._clock.now

    def is_right(self, bound=WINDOW):
        """The device's clock is, from now on."""
        self.bound, self._far, self._drift, self.answered_right = bound, 0, 0, False

    def forger(self):
        """Somebody who answers."""
        by, step = (self.random.choice((1, -1)) * one for one in (10 ** self.random.uniform(3, 9), WINDOW))
        near = lambda: self.app.time() + step * self.random.random()  # noqa: E731
        answers = [lambda: None, lambda: self.truth, lambda: self.truth + by, near]
        return self.random.choice([answers[0], *answers, lambda: self.random.choice(answers)()])

    def ask(self, server):
        t = self.answer()
        if t is None:
            self._clock.now += 1
            raise OSError(110)
        self._errors.append(abs(int(t) - self.truth))
        return int(t)

    def sync_time(self, host=None, within=None):
        self._errors, near = [], WINDOW + 2 * self._drift
        is_set = sntp.sync(host, within)
        wrong = [error for error in self._errors if error > 2]
        if self._errors:
            self._told = True
            self.answered_right |= not wrong
            self._far = self._far + 1 if wrong or self.bound > WINDOW else 0
        if self._far > self.most:
            self.bound = FOREVER
        elif wrong and min(wrong) <= self.bound + near:
            self.bound += near
        while is_set and self._undated:
            self._undated.pop()[1] = self._errors[-1] + self._drift + 5
        return is_set

    def sensors(self):
        yield "count", None, len(self.made)
        known = self.bound + self._drift + 5 if self._told else -1  # who was told no time cannot know it
        self.made.append([self.truth, known if self.app.synchronised else None])
        if not self.app.synchronised:
            self._undated.append(self.made[-1])

    def start(self, cause, is_part=False):
        """is_part: of the boot."""
        if not is_part:
            self.is_right(FOREVER)
            self._undated.clear()
        if cause == POWER_ON:
            self.memory, self._told = None, False
        if cause == POWER_ON or not self._runs_on:
            self.set_clock(0 if self._runs_on else 1_609_459_200)
        if self.app:
            cut_power(self.app.client)
        self.cause, self.wifi = cause, self.joins
        self.app = self._make()

    def sleep(self, ms, deep=False):
        if deep:
            sys.exit()
        self._clock.now += ms / 1000

    def run(self, seconds):
        end = self._clock.now + seconds
        while self._clock.now < end:
            self._turn()

    def _turn(self):
        # A wake and the sleep behind it, or some seconds of a device that stays awake.
        try:
            if not self.sleep_s:
                self.app.step()
                self._clock.now += 30
                return
            left = self.app.run() / 1000
            self.app.journal.commit()
            self._pin.by_pin = self._runs_on and self.random.random() < 0.2
            slept = left * self.random.random() if self._pin.by_pin else left
            self._clock.now += slept
            self._ahead += slept * self.random.uniform(-DRIFT, DRIFT)
            self._drift += slept * DRIFT + (left - slept) * (not self.app.synchronised)
            self.start(DEEP_SLEEP if left else SOFT, True)
        except SystemExit:
            self.start(SOFT, True)

    def happen(self):
        """What else happens to a device, or nothing."""
        kind = self.random.randrange(8)
        if kind in (1, 2):
            self.app.remember()  # or not: a crash
        if kind < 4:
            causes = POWER_ON, WATCHDOG, SOFT, DEEP_SLEEP if self.sleep_s else WATCHDOG
            self.start(causes[kind], kind == 2)
        elif kind < 6:
            self.wifi = self.joins = (NO_AP, ONLINE)[kind - 4]


@pytest.fixture
def begin(make, clock, automatic, pin, monkeypatch):  # noqa: F811
    """begin(seed) is a world and the broker in it."""
    with automatic() as broker:

        def made(seed):
            world, getaddrinfo = World(make, clock, broker.port, seed, pin), socket.getaddrinfo

            def dial(*given, **more):
                if not world.valid[0] <= world.time() <= world.valid[1]:
                    raise OSError("TLS: a certificate of another time")
                return getaddrinfo(*given, **more)

            monkeypatch.setattr(socket, "getaddrinfo", dial)
            monkeypatch.setattr("time.time", world.time)
            monkeypatch.setattr(sntp, "_ask", world.ask)
            monkeypatch.setattr(sntp, "_set", world.set_clock)
            return world, broker

        yield made


def expect_dated(world, broker):
    """What the device has read, but for the last ones, is dated as exactly as it can know the time."""
    found = dated(broker)
    for count, (truth, bound) in enumerate(world.made):
        if truth < world.truth - world.period - 600:
            assert found[count] is bound is None or abs(found[count] - truth) <= bound


@pytest.mark.parametrize("seed", [0, 2, 9, 12, 26, 27, *more(*range(28, 100))])  # the first ones see kept mutants
def test_the_clock_against_an_adversary(begin, clock, seed):
    world, broker = begin(seed)
    for _ in range(6):
        for _ in range(world.random.randrange(1, 6)):
            world.answer = world.forger()
            world.happen()
            world.run(60 * 10 ** world.random.uniform(0, 2.3))
        world.answer, world.wifi, world.joins, world.answered_right = lambda: world.truth, ONLINE, ONLINE, False
        # A device that stays awake asks once a day, and with each start; a sensor that sleeps each hour.
        end = clock.now + (HOUR + world.period if world.sleep_s else DAY) + 600
        while not world.answered_right:
            world.run(1)
            assert clock.now < end
        world.run(max(HOUR, (world.most + 1) * world.period if world.sleep_s else 0) + 300)
        assert world.app.synchronised and abs(world.app.time() - world.truth) <= WINDOW
        expect_dated(world, broker)
        world.is_right()


def test_readings_since_a_crash_are_dated_over_a_restart(begin):
    """Without a network, on a board whose clock runs on since the power-on."""
    world, broker = begin(7)
    world.answer, world.wifi, world.joins = lambda: world.truth, NO_AP, NO_AP
    for cause in (WATCHDOG, SOFT):
        world.run(600)
        world.app.remember()
        world.start(cause, cause == SOFT)
    world.wifi = world.joins = ONLINE
    world.run(HOUR)
    expect_dated(world, broker)


class WholeSeconds(Counting):
    """A board whose clock, which is right by `ahead`, tells whole seconds. read: its time at each reading."""

    def __init__(self, clock):
        super().__init__()
        self._clock, self.ahead, self.read = clock, 1_790_000_000.3, {}

    def sensors(self):
        yield from super().sensors()
        self.read[self.count] = self._clock.now + self.ahead

    def sync_time(self, host=None, within=None):
        self.ahead = round(self._clock.now + self.ahead) - self._clock.now  # as an answer is, and RTC.datetime()
        return True


@pytest.mark.parametrize("batch", [1, 30], ids=["singly", "gathered"])
def test_readings_within_a_second_differ_as_the_ticks_do(make, clock, nobody, automatic, monkeypatch, batch):
    """Also when the clock is set: never by a second from it."""
    flash, board, make.backoff_ms = RamFlash(24, 4096), WholeSeconds(clock), (60_000, 60_000)
    monkeypatch.setattr("time.time", lambda: int(clock.now + board.ahead))
    app = make(nobody, flash, board=board, batch=batch)
    for jump in (0, 0.4, -0.7, 5, -3600.5):
        board.ahead += jump
        last = board.count + 20
        while board.count < last:
            app.step()
    cut_power(app.client)
    with automatic() as broker:
        app = make(broker.port, flash, board=board, interval_ms=10_000)
        while app.client.pending or not broker.arrived:
            app.step()
    times = {values["count"]: t for t, values in gathered(broker).values()}
    assert [round(times[count] - times[1], 1) for count in range(1, 21)] == [one / 10 for one in range(20)]
    assert all(abs(times[count] - board.read[count]) < 1 for count in range(1, 101))
