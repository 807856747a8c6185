# Common to all applications: publishes readings, status and health through the journal, and executes commands. The
# application decides when.

import gc
import json
import sys
import time

import log
import telemetry
from inflight import __version__ as VERSION
from inflight.compat import const, ticks_diff, ticks_ms
from inflight.journal.journal import OUT

_JUMP_S = const(900)  # a time that is farther from the known one is refused
_GATHERED = const(494)  # bytes of a record with gathered readings, at most
_FRAME = const(18)  # bytes of a record beside topic and payload, at most: those of a PUBLISH, and of an expiry
_SET = const(1_735_689_600)  # 2025: an earlier time means that the clock was reset
_REFUSED = const(0x80)  # a SUBACK with this code, or a higher one
_UPTIME = const(26_843_545_600)  # a clock below it tells no time of day, as in SenML: 2**28 s
_BOOT = const(0x3FFFFF)  # bits of the number of a boot that are remembered


def will(config):
    """The will message that the broker publishes if the device vanishes: for Client(will=...). At level 5 it may wait:
    a device that sleeps leaves with its will, which tells that it did not come back in time."""
    topic = "%s/%s/status" % (config.root, config.device)
    message = topic, json.dumps({"state": "offline", "firmware": VERSION}), 1, True
    delay = config.will_delay_s
    if config.protocol_level > 4 and config.sleep_ms and not delay:
        delay = max(1, 5 * config.sleep_ms * config.report_every // 2000)
    return message + (_properties(will_delay=delay),) if delay else message


def _properties(**given):
    import inflight.level5.properties5 as module

    for home in ("inflight", "inflight.level5"):  # a board has no folders
        if sys.modules.pop(home + ".properties5", None):  # nothing else here needs it
            delattr(sys.modules[home], "properties5")
    return module.properties(**given)


class Node:
    """A device, for `board` and `config`. `client` publishes from `journal`, which is stored on `flash`; `sources` are
    callables that return (name, unit, value) triples, default: the board's sensors and those of the configuration. A
    source may have start(), see telemetry. began: ticks_ms() of the start, default: now. crash: what ended an earlier
    start, see crash."""

    RECONNECT = True  # for the client
    rules = None  # see callback
    version = VERSION

    @staticmethod
    def timeout(config):
        """The client's timeout_ms."""
        return config.timeout_ms

    @staticmethod
    def slept(board, config):
        """Seconds that the device certainly slept before this start."""
        return 0

    def __init__(self, board, config, journal, client, flash, sources=None, began=None, crash=None):
        self.board = board
        self.config = config
        self.journal = journal
        self.client = client
        self.flash = flash
        self.full = 0  # messages refused by a full journal
        self.errors = {}  # of sensors, by name; `mqtt client`, which is no sensor's name: of the client, see health
        self.heap = self.heap_least = None  # free bytes, before health is composed
        client.on_error = client.on_disconnect = self._hear
        self.stopping = False  # a command requested a restart
        self.later = None  # a function: what a command requested that its handler may not do
        self.synchronised = False  # the clock is right
        self._doubts = 0  # answers in a row of time servers that were far from it
        self.crash = crash
        self.actuators = self._made_actuators()
        self.home = self._made_home()
        self.update = None  # of the firmware: what fetches a release, or tries it
        self.sources = [board.sensors] + self._configured() if sources is None else sources
        self._base = "%s/%s/" % (config.root, config.device)
        self.telemetry_topic = self._base + "telemetry"
        self._expiry = _properties(expiry=config.expiry_s) if config.expiry_s else None
        self._accepted = getattr(board, "accepted", None)
        self._network_is_set_up = False
        self._up_ms = self._up_s = 0
        self._boot = journal.next_seq  # the number of the first message since the boot
        self._slept_cs = 0  # from the boot to this start, in 1/100 s
        self._undated = False  # readings since the boot have no time
        self._clock = 0  # at this start, in 1/100 s since 1970, when the time is known
        self._ahead_s = 0  # of the board's clock then
        self._batch = None  # of readings, while there is no connection
        self._up_at = ticks_ms() if began is None else began
        board.reset_cause()
        log.set_level(config.log)

    def subscribe(self):
        """Subscribes to the device's commands: before the client connects, or with on_message, so that none comes
        before its handler. Returns True if the broker has granted it."""
        granted = self.client.subscribe(self._base + "command/#", self.config.most_qos, self._on_command)
        if self.config.update_keys:
            import updates

            updates.listen(self)
        return granted is not None and granted < _REFUSED

    def _configured(self):
        if not self.config.sensors:
            return []
        import sensors

        return [sensors.Sensor(entry) for entry in self.config.sensors]

    def _made_actuators(self):
        if not self.config.actuators:
            return None
        from actuators import Actuators

        return Actuators(self)

    def _made_home(self):
        if self.config.ha is None:
            return None
        from home import Home

        return Home(self)

    def uptime(self):
        """Seconds since the start. Ticks wrap around; to be called every few days at least."""
        now = ticks_ms()
        self._up_ms += ticks_diff(now, self._up_at)
        self._up_at = now
        self._up_s += self._up_ms // 1000
        self._up_ms %= 1000
        return self._up_s

    def moment(self):
        """(time in 1/100 s since 1970, or since the boot; base time of a pack with it, as text)"""
        cs = self._time_cs() if self.synchronised else self._up_cs() + self._slept_cs
        # SenML takes a time below 2**28 for relative to now.
        return cs, ("" if self.synchronised else '0,"up":') + telemetry.seconds(cs)

    def _up_cs(self):
        return self.uptime() * 100 + self._up_ms // 10

    def time(self):
        """Seconds since 1970; right if the clock is `synchronised`."""
        return self._time_cs() // 100

    def _time_cs(self):
        # The board's clock may count whole seconds. Within its second the time is that of the ticks.
        least = self._board_cs() + self._ahead_s * 100
        self._clock = min(max(self._clock, least), least + 99)
        return self._clock + self._up_cs()

    def _sync_time(self, drift_s, most):
        # Sets the clock. The known time may be wrong by drift_s. `most` answers in a row that are far from it overrule
        # it; if one answer alone has set it, one does: nobody signs them. Returns True if it is set, None if the answer
        # was too far from the known time. No answer says nothing.
        within = None
        if self.synchronised and self._doubts < most:
            now = self.time()
            within = now - drift_s - _JUMP_S, now + drift_s + _JUMP_S
        before = self._board_cs()
        is_set = self.board.sync_time(self.config.ntp, within)
        board = self._board_cs()
        if is_set:
            self.synchronised = True
            self._clock = board
            self._doubts = 0 if within else most - 1
        elif is_set is None:
            self._doubts += 1
        if is_set or abs(board - before) > 99:  # without an answer the board may have set its clock, too
            self._ahead_s = (self._clock - board) // 100
        return is_set

    # --- the time over a sleep or a restart, which are part of a boot: in 1/100 s since 1970, or since the boot ---

    def _board_cs(self):
        # What the board's clock was at this start.
        t = time.time()
        if t + telemetry.EPOCH > _SET:
            t += telemetry.EPOCH
        return int(t * 100) - self._up_cs()

    def _clock_cs(self):
        # What the next start is to go on with. While readings have to be dated, that is the uptime.
        if self.synchronised and not self._undated:
            return self._time_cs()
        return self._up_cs() + self._slept_cs

    def _go_on(self, expected, boot, most_cs, is_set=False):
        # The last start expected this one at the clock `expected`, 0: it is not known, and in the boot whose first
        # message has a number with the last bits `boot`. The board's clock, if it runs on, is at most most_cs from
        # that. is_set: it has the time.
        board = clock = self._board_cs()
        if not is_set:
            if expected:
                if abs(clock - expected) > most_cs:
                    clock = expected
            elif clock >= _UPTIME:
                clock = 0
        self.synchronised = clock >= _UPTIME
        if self.synchronised:
            self._clock = clock
            self._ahead_s = (clock - board) // 100
        else:
            self._slept_cs = clock
            if expected:
                self._boot -= (self._boot - boot) & _BOOT
                self._undated = True

    # --- publishing ---

    def _publish(self, topic, payload, qos, retain=False, properties=None):
        # Returns the Message ID, 0 or None without one. payload tells journal.next_seq, so nothing may take that number
        # first: not even a handler, which can run while publish() waits for space.
        journal = self.journal
        seq = journal.next_seq
        size = len(topic.encode()) + len(payload) + _FRAME
        if size > journal.largest:
            self._refused(topic, "%d bytes do not fit the journal" % len(payload))
            return
        self._thin(size)
        if not (self.config.when_full or journal.fits(OUT, size)):
            self.full += 1
            return
        try:
            mid = self.client.publish(topic, payload, qos, retain, properties)
        except ValueError as e:  # at level 5 a broker may take less than the journal
            self._refused(topic, str(e))
            return
        if mid and self._accepted:
            self._accepted(seq, qos, topic[len(self._base) :])
        return mid

    def _thin(self, size):
        # Before a message of `size` bytes.
        if self.config.thins and not self.journal.fits(OUT, size):
            from thin import discard

            discard(self, size)

    def _refused(self, topic, why):
        # By its first level: senders choose the names of commands, and may choose many.
        self.errors[topic[len(self._base) :].split("/")[0]] = why

    def report(self, topic, fields, retain=False):
        """Publishes a dict to `topic` of this device, with sequence number and epoch, and with the lowest number that
        the broker has not completed, `oldest`. Returns the Message ID."""
        journal = self.journal
        fields["seq"] = fields["oldest"] = journal.next_seq
        fields["epoch"] = journal.epoch
        if journal.live and journal.find(OUT, 0) >= 0:
            fields["oldest"] = journal.found_seq
        return self._publish(self._base + topic, json.dumps(fields).encode(), 1, retain)

    def _publish_status(self, state, **more):
        more["state"] = state
        more["firmware"] = VERSION
        if state == "online":
            more["board"] = self.board.NAME
            if self.config.group:
                more["group"] = self.config.group
            if sys.implementation.name == "micropython":
                more["micropython"] = "%d.%d.%d" % sys.implementation.version[:3]
        if not self.config.update_keys:
            more["updates"] = False
        if self.crash and "safe" in self.crash:
            more["safe"] = True
        return self.report("status", more, True)

    def _hear(self, error):
        # A refused subscription is asked for again at the next connection. Till then health tells it.
        log.report(error)
        told = self.errors.pop("mqtt client", "")
        if self.client.connected:
            self.errors["mqtt client"] = told if "refused" in told else telemetry.describe(error)

    def _publish_health(self, **more):
        gc.collect()
        if hasattr(gc, "mem_free"):
            self.heap = gc.mem_free()  # now: what composes the message takes some of it
            self.heap_least = min(self.heap, self.heap_least or self.heap)
        from health import report

        more.update(report(self))
        if self.home:
            self.home.see_health(more)
        self.report("health", more)

    def _read(self):
        return list(telemetry.read(self.sources, self.errors))

    def _publish_telemetry(self, readings):
        # Returns the Message ID, 0 or None without one.
        if self.home:
            self.home.see(readings)
        journal = self.journal
        batch = self._batch
        if batch:
            self._thin(_GATHERED)  # it takes the place of another one, which is there until then
            payload = batch.payload(readings)
        else:
            payload = telemetry.pack(self.config.device, self.moment()[1], journal.next_seq, journal.epoch, readings)
        mid = payload and self._publish(self.telemetry_topic, payload, self.config.qos, False, self._expiry)
        if mid:
            self._undated = self._undated or not self.synchronised
            if batch:
                batch.published(mid)
            elif not (self.client.connected or self.config.sleep_ms):
                self._gather()  # from the next reading on
        return mid

    def _gather(self):
        # Not if messages expire or are dropped, each reading for itself; nor at QoS 2, where none may come twice.
        config = self.config
        if config.batch > 1 and config.qos < 2 and not config.expiry_s and config.when_full != "oldest":
            from batch import Batch

            self._batch = Batch(self, self.telemetry_topic)

    def _date_readings(self):
        # Tells when undated readings were made. Not from within what is lent, or called by what is: publish() takes
        # most of the stack.
        self._undated = not self._publish(self.telemetry_topic, self._dating(), self.config.qos)

    def packet(self, at):
        """The packet of the journal's message at `at`, as bytes."""
        head = bytearray(3)  # its type, and Remaining Length [MQTT-2.2.3]: of a message with readings two bytes at most
        self.journal.read(at, 0, head)
        packet = bytearray(head[1] + 2 if head[1] < 128 else head[1] + head[2] * 128 - 125)
        self.journal.read(at, 0, packet)
        return bytes(packet)

    def _dating(self):
        journal = self.journal
        numbers = journal.next_seq, journal.epoch, self._boot
        up = telemetry.seconds(self._up_cs() + self._slept_cs)
        return telemetry.dating(self.config.device, self.moment()[1], *numbers, up)

    # --- commands, and what else is seldom: modules that the build gives back ---

    def _publish_log(self):
        if self.client.connected:
            from commands import publish_log

            publish_log(self)

    def _confirm(self):
        # Returns True if what is tried was given up.
        if self.config.trial:
            from settings import confirm

            return confirm(self)

    def _on_command(self, message):
        from commands import answer

        answer(self, message.topic[len(self._base) + len("command/") :], message)

    # --- network ---

    @property
    def network(self):
        """The board's."""
        return self.board.network(self.config.network)

    def _set_up_network(self):
        # Before the first join.
        if not self._network_is_set_up:
            self._network_is_set_up = True
            try:
                self.network.setup(self.config)
            except (ValueError, OSError) as e:
                self.errors["wifi"] = telemetry.describe(e)
