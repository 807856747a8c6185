# The application of a device that stays awake: telemetry at its interval, status, health, commands.
# Its board, client and journal are arguments, so tests drive it like a device does.
#
# A restart that it makes itself is part of the boot: the time goes on, and readings are gathered with those before it.
# Behind what offline keeps the board remembers the clock (5 bytes), the number of the boot's first message (3), see
# Node, whether it gathered, and the doubts about the clock.

import log
import telemetry
from codes import CONNECTING, ONLINE, SOFT
from connectivity import Connectivity
from inflight.compat import const, ticks_add, ticks_diff, ticks_ms
from inflight.journal.journal import OUT
from log import INFO
from node import Node
from telemetry import HEALTH_MS

_SLICE = const(500)  # longest time in ms between two checks of Wi-Fi, clock and watchdog
_CLOCK_MS = const(60_000)  # between two attempts to set the clock
_DOUBTS = const(55)  # answers in a row far from the known time, which overrule it within an hour
_DAY_MS = const(86_400_000)
_RESTART_MS = const(900_000)  # without a connection to the broker: nothing is lost by it
_DRAIN_MS = const(5_000)
_SPACE = const(512)  # bytes, more than a status takes
_OFFLINE = const(6)  # bytes that offline keeps
_KEPT = const(16)  # with what is remembered here
_BOOT = const(0xFFFFFF)
_CLOCK = const(0xFFFFFFFFFF)
_HOUR_CS = const(360_000)


class Timer:
    """Due at once, and then every `ms`. Missed times are skipped."""

    def __init__(self, ms):
        self.ms = ms
        self.at = ticks_ms()

    def left(self, now):
        """ms until it is due, 0 or less if it is due."""
        return ticks_diff(self.at, now)

    def due(self, now):
        """True once for each time that it is due."""
        if self.left(now) > 0:
            return False
        self.at = ticks_add(self.at, self.ms)
        if self.left(now) <= 0:
            self.put_off(now)
        return True

    def put_off(self, now):
        """Makes it due `ms` from now."""
        self.at = ticks_add(now, self.ms)


class App(Node):
    """The firmware of a device that stays awake; Node documents the arguments."""

    def __init__(self, board, config, journal, client, flash, sources=None, began=None, crash=None):
        super().__init__(board, config, journal, client, flash, sources, began, crash)
        time = 0
        kept = board.recall()
        if kept and len(kept) == _KEPT:
            board.remember(kept[:_OFFLINE])  # unless this start ends with a restart, too
            if board.reset_cause() == SOFT:
                time = int.from_bytes(kept[_OFFLINE:-2], "little")
                self._doubts = kept[-1]
                if kept[-2]:
                    self._gather()
                if self._batch:
                    self._batch.load()
        self._go_on(time & _CLOCK, time >> 40, _HOUR_CS)  # after a crash, too: the board's clock may have run on
        self.subscribe()
        self.telemetry = Timer(config.interval_ms)
        self._health = Timer(config.health_ms)
        self._short_health = Timer(max(config.health_ms, HEALTH_MS))  # without a connection
        self._short_health.put_off(ticks_ms())
        self._connectivity = Connectivity(self.network, config.wifi_ssid, config.wifi_key) if config.joins else None
        if config.setup:
            from offline import keep

            self._connectivity = keep(self, self._connectivity)
        self._sync = Timer(_CLOCK_MS)
        self._restart = Timer(_RESTART_MS)  # due without a connection for so long
        self._restart.put_off(ticks_ms())
        self._wifi_status = None
        self._reading_sensors = False  # the sensors are measuring
        self._readings_due = 0  # when they are ready
        self._connected_anew = False
        client.on_connect = self._on_connect

    def _made_rules(self):
        try:
            found = __import__("rules")
        except Exception as e:
            if isinstance(e, ImportError) and "'rules'" in str(e):
                return None  # the device has none
            found = e
        from callback import load

        return load(found, self.errors)

    def set_interval(self, ms):
        """Sets the interval of telemetry until the next start."""
        self.telemetry.ms = ms
        self.telemetry.put_off(ticks_ms())
        if self.home:
            self.home.announce()  # readings are available for longer, or not so long

    def _on_connect(self, session_present):
        # step() does what follows: within a callback an RP2040 has little stack left.
        self._connected_anew = True
        self._batch = None  # it leaves from now on

    def _after_connection(self):
        if self._confirm() or not (self.config.when_full or self.journal.fits(OUT, _SPACE)):
            return  # it starts with other settings; or the broker takes some of what fills the journal first
        self._connected_anew = False
        self._publish_status("online")
        if self.actuators:
            self.actuators.publish_all()
        if self.home:
            self.home.announce()

    def _keep_network(self, now):
        if self.client.connected or not (self._connectivity or self.config.trial):
            self._restart.put_off(now)
        elif self._restart.due(now):
            from crash import restart

            restart(self, "no connection for 15 minutes")
            return
        status = self.network.status()
        if self._connectivity:
            if status not in (ONLINE, CONNECTING):
                self._set_up_network()
            self._connectivity.keep(self.client)
        if status != self._wifi_status:
            self._wifi_status = status
            log.say("network: " + status, INFO)
        if status == ONLINE and self._sync.due(now):
            self._keep_time(now)

    def _keep_time(self, now):
        is_set = self._sync_time(0, _DOUBTS)
        self._sync.ms = _DAY_MS if is_set and not self._doubts else _CLOCK_MS
        self._sync.put_off(now)

    def _keep_reading(self, now):
        # Returns the time in ms until something is due.
        if self.telemetry.due(now) and not self._reading_sensors:
            self._reading_sensors = True
            self._readings_due = ticks_add(now, telemetry.start(self.sources))
        if not self._reading_sensors:
            return self.telemetry.left(now)
        left = ticks_diff(self._readings_due, now)
        if left > 0:
            return left
        self._reading_sensors = False
        readings = self._read()
        self._publish_telemetry(readings)
        if self.rules:
            self.rules.see(readings)
        return self.telemetry.left(now)

    def step(self):
        """Does what is due, then runs the client until the next thing is due, for a limited time."""
        now = ticks_ms()
        if self.config.watchdog_ms:
            self.board.watchdog(self.config.watchdog_ms)
        self._keep_network(now)
        if self._undated and self.synchronised:
            self._date_readings()
        left = self._keep_reading(now)
        health = self._health if self.client.connected else self._short_health
        if health.due(now):
            self._publish_health()
        if log.waiting:
            self._publish_log()
        if self.home:
            self.home.step()
        if self.update:
            self.update.step()
        self.client.run_for(max(min(left, health.left(now), _SLICE), 1))
        if self._connected_anew and self.client.connected:
            self._after_connection()
        if self.later:
            self.later()

    def run(self):
        """Runs until a command ends it. Ctrl-C can interrupt a packet: then nothing more is sent, and the broker
        publishes the will. Returns for how many ms the device sleeps; 0: restart."""
        if not (self.crash and "safe" in self.crash):
            self.rules = self._made_rules()  # not when it is created: a search of the file system takes much stack
        while not self.stopping:
            self.step()
        self.close()
        self.remember()
        return 0

    def remember(self):
        """To be called before a restart."""
        kept = (self.board.recall() or bytes(_OFFLINE))[:_OFFLINE]
        time = (self._boot & _BOOT) << 40 | self._clock_cs()
        self.board.remember(kept + time.to_bytes(8, "little") + bytes([self._batch is not None, self._doubts]))

    def close(self):
        """Publishes the status offline, waits a limited time for the broker to complete all messages, and
        disconnects."""
        self._publish_status("offline")
        self.client.drain(_DRAIN_MS)
        self.client.disconnect()
        if self.update:
            self.update.close()
