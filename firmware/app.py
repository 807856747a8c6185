# The application: telemetry at its interval, status, health, commands. What it works with is handed
# to it, so a test drives it like a device does.

import json

import commands
import health
import telemetry
from codes import CONNECTING, ONLINE
from inflight.journal import OUT
from inflight.port import const, ticks_add, ticks_diff, ticks_ms
from inflight.session import CONNECTS

VERSION = "0.1.0"
_SLICE = const(500)  # ms at most between two looks at the link, the clock and the watchdog
_WIFI_MS = const(15_000)  # between two attempts to join
_CLOCK_MS = const(60_000)  # between two attempts to set the clock
_DAY_MS = const(86_400_000)
_FAREWELL_MS = const(5_000)
_FRAME = const(9)  # bytes of a PUBLISH beside topic and payload, at most


def will(config):
    """What the broker says of a device that vanishes: for Client(will=...)."""
    topic = "%s/%s/status" % (config.root, config.device)
    return topic, json.dumps({"state": "offline", "firmware": VERSION}), 1, True


class Every:
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


class App:
    """The firmware of a device, for `board` and `config`. `client` publishes from `journal`;
    `sources` are callables that give (name, unit, value) triples, default: the board's sensors."""

    version = VERSION

    def __init__(self, board, config, journal, client, sources=None):
        self.board = board
        self.config = config
        self.journal = journal
        self.client = client
        self.full = 0  # messages that found the journal full
        self.errors = {}  # sensors that failed, and how
        self.stopping = False
        self._sources = sources or [board.sensors]
        self._base = "%s/%s/" % (config.root, config.device)
        self._telemetry_topic = self._base + "telemetry"
        self._accepted = getattr(board, "accepted", None)
        self._telemetry = Every(config.interval_ms)
        self._health = Every(config.health_ms)
        self._wifi = Every(_WIFI_MS)
        self._clock = Every(_CLOCK_MS)
        self._synchronised = False
        self._connects = client.session.count[CONNECTS]
        self._up_ms = self._up_s = 0
        self._up_at = ticks_ms()
        board.reset_cause()
        client.subscribe(self._base + "command/#", 2, self._on_command)

    def uptime(self):
        """Seconds since the start. Ticks wrap; to be called every few days at least."""
        now = ticks_ms()
        self._up_ms += ticks_diff(now, self._up_at)
        self._up_at = now
        self._up_s += self._up_ms // 1000
        self._up_ms %= 1000
        return self._up_s

    def set_interval(self, ms):
        """Telemetry goes out every `ms` from now on, until the next start."""
        self._telemetry.ms = ms
        self._telemetry.put_off(ticks_ms())

    # --- going out ---

    def _publish(self, topic, payload, qos, retain=False):
        # payload tells journal.next_seq, so nothing may take that number first: not even a
        # handler, which can run while publish() waits for room.
        journal = self.journal
        seq = journal.next_seq
        if len(payload) + len(topic) + _FRAME > journal.largest:
            self.errors[topic[len(self._base) :]] = "%d bytes do not fit the journal" % len(payload)
        elif not self.config.drop and not journal.fits(OUT, len(topic.encode()) + len(payload) + _FRAME):
            self.full += 1
        elif self.client.publish(topic, payload, qos, retain) and self._accepted:
            self._accepted(seq, qos, topic[len(self._base) :])

    def _report(self, topic, fields, retain=False):
        fields["seq"] = self.journal.next_seq
        fields["epoch"] = self.journal.epoch
        self._publish(self._base + topic, json.dumps(fields).encode(), 1, retain)

    def _publish_status(self, state):
        self._report("status", {"state": state, "firmware": VERSION}, True)

    def _publish_telemetry(self):
        journal = self.journal
        clock = telemetry.now(self._synchronised)
        readings = telemetry.read(self._sources, self.errors)
        payload = telemetry.pack(self.config.device, clock, journal.next_seq, journal.epoch, readings)
        if payload:
            self._publish(self._telemetry_topic, payload, self.config.qos)

    # --- coming in ---

    def _on_command(self, message):
        name = message.topic[len(self._base) + len("command/") :]
        self._report("reply/" + (name or "?"), commands.obey(self, name, message))

    # --- the loop ---

    def _keep_network(self, now):
        board = self.board
        status = board.wifi_status()
        if status == ONLINE:
            self._wifi.at = now  # due as soon as the network goes
            if self._clock.due(now) and board.sync_time():
                self._synchronised = True
                self._clock.ms = _DAY_MS
                self._clock.put_off(now)
        elif status != CONNECTING and self.config.wifi_ssid and self._wifi.due(now):
            board.wifi_connect(self.config.wifi_ssid, self.config.wifi_key, 0)

    def step(self):
        """Does what is due, then lets the client work until the next thing is, or for a moment."""
        now = ticks_ms()
        if self.config.watchdog_ms:
            self.board.watchdog(self.config.watchdog_ms)
        self._keep_network(now)
        connects = self.client.session.count[CONNECTS]
        if connects != self._connects:
            self._connects = connects
            self._publish_status("online")
        if self._telemetry.due(now):
            self._publish_telemetry()
        if self._health.due(now):
            self._report("health", health.report(self))
        left = min(self._telemetry.left(now), self._health.left(now), _SLICE)
        self.client.run_for(max(left, 1))

    def run(self):
        """Runs until a command ends it. Ctrl-C can strike between any two bytes: then nothing more
        is said, and the will speaks."""
        while not self.stopping:
            self.step()
        self.close()

    def close(self):
        """Says goodbye; what the broker does not take in time stays in the journal."""
        self._publish_status("offline")
        self.client.drain(_FAREWELL_MS)
        self.client.disconnect()
