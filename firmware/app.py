# The application of a device that stays awake: telemetry at its interval, status, health, commands.
# What it works with is handed to it, so a test drives it like a device does.

import telemetry
from codes import CONNECTING, ONLINE
from inflight.compat import const, ticks_add, ticks_diff, ticks_ms
from node import Node

_SLICE = const(500)  # ms at most between two looks at the link, the clock and the watchdog
_WIFI_MS = const(15_000)  # between two attempts to join
_CLOCK_MS = const(60_000)  # between two attempts to set the clock
_DAY_MS = const(86_400_000)
_DRAIN_MS = const(5_000)


class Timer:
    """Due at once, and then each `ms`. What was missed is not made up for."""

    def __init__(self, ms):
        self.ms = ms
        self.at = ticks_ms()

    def left(self, now):
        """ms until it is due, 0 or less if it is."""
        return ticks_diff(self.at, now)

    def due(self, now):
        """True if its time has come: once."""
        if self.left(now) > 0:
            return False
        self.at = ticks_add(self.at, self.ms)
        if self.left(now) <= 0:
            self.put_off(now)
        return True

    def put_off(self, now):
        """The next time is `ms` from now."""
        self.at = ticks_add(now, self.ms)


class App(Node):
    """The firmware of a device that is always there; Node tells its arguments."""

    def __init__(self, board, config, journal, client, flash, sources=None, began=None):
        super().__init__(board, config, journal, client, flash, sources, began)
        self._telemetry = Timer(config.interval_ms)
        self._health = Timer(config.health_ms)
        self._wifi = Timer(_WIFI_MS)
        self._clock = Timer(_CLOCK_MS)
        self._reading_sensors = False  # the sensors are at work,
        self._readings_due = 0  # until then
        client.on_connect = self._on_connect

    def set_interval(self, ms):
        """Telemetry goes out every `ms` from now on, until the next start."""
        self._telemetry.ms = ms
        self._telemetry.put_off(ticks_ms())

    def _on_connect(self, session_present):
        self._publish_status("online")

    def _keep_network(self, now):
        board = self.board
        status = board.wifi_status()
        if status == ONLINE:
            self._wifi.at = now  # due as soon as the network goes
            if self._clock.due(now) and board.sync_time(self.config.ntp):
                self.synchronised = True
                self._clock.ms = _DAY_MS
                self._clock.put_off(now)
        elif status != CONNECTING and self.config.wifi_ssid and self._wifi.due(now):
            self._join(0)

    def _keep_reading(self, now):
        # Returns how many ms until there is something to do.
        if self._telemetry.due(now) and not self._reading_sensors:
            self._reading_sensors = True
            self._readings_due = ticks_add(now, telemetry.start(self._sources))
        if not self._reading_sensors:
            return self._telemetry.left(now)
        left = ticks_diff(self._readings_due, now)
        if left > 0:
            return left
        self._reading_sensors = False
        self._publish_telemetry(self._read())
        return self._telemetry.left(now)

    def step(self):
        """Does what is due, then lets the client work until the next thing is, or for a moment."""
        now = ticks_ms()
        if self.config.watchdog_ms:
            self.board.watchdog(self.config.watchdog_ms)
        self._keep_network(now)
        left = self._keep_reading(now)
        if self._health.due(now):
            self._publish_health()
        self.client.run_for(max(min(left, self._health.left(now), _SLICE), 1))

    def run(self):
        """Runs until a command ends it. Ctrl-C can strike between any two bytes: then nothing more
        is said, and the will speaks. Returns for how many ms the device is to sleep: 0, a new start."""
        while not self.stopping:
            self.step()
        self.close()
        return 0

    def close(self):
        """Publishes the status offline, waits a while for the broker to have all, and disconnects."""
        self._publish_status("offline")
        self.client.drain(_DRAIN_MS)
        self.client.disconnect()
