# The application of a device that sleeps: it wakes, writes its readings to the journal, delivers the messages in the
# journal, executes commands sent meanwhile, and sleeps again.
#
# A wake
# ------
#   read     start the sensors, read them
#   journal  write the readings to the journal: durable from here on
#   wifi     connect                                 \
#   connect  set the clock, connect to the broker     > at each report_every-th wake, or when half
#   deliver  the backlog, the status, commands       /  the journal is full
#
# Data for the next wake are kept in the board's memory, see Memory. Each wake is measured; its health message reports
# the previous one, which is complete.
#
# Time
# ----
# The wakes since a power-on are one boot: the time since then, or the time of day once it is known, goes on over the
# sleep. A board whose clock runs on has it there; for others it is what the last wake expected, less exact by what the
# chip's timer is, and by the start of the board. After a crash nobody knows how long that took: a new boot begins.

import struct
from binascii import crc32
from errno import ENOENT

import log
import telemetry
from codes import DEEP_SLEEP, ONLINE, SOFT
from files import beside, kept_json, write
from inflight.compat import const, ticks_add, ticks_diff, ticks_ms
from inflight.counters import CONNECTS, DUPLICATES, RECEIVED, TOO_LONG
from inflight.packet import ProtocolError
from node import Node

_DAY_S = const(86_400)
_QUIET_MS = const(250)  # after so long without a packet the broker has sent everything
_SLICE = const(50)  # polling interval for that
_JOINS = const(3)  # attempts to join: the first of a radio may find nothing, or refuse the right key
_STEPS = const(3)  # steps of connecting, with a time-out each: TCP, CONNACK, SUBACK
_SYNC_MS = const(3_600_000)  # set the clock at this interval; clocks of sleeping chips are inaccurate
_DRIFT_MS = const(50_000)  # in which a clock may be wrong by 1 s: 2 %
_NEVER = const(255)
_DOUBTS = const(7)  # answers in a row far from the known time overrule it: as many as come in an hour, but from 2 to 7
_MAX = const(65535)
_MOST_WAKES = const(0x3FFF)  # since a health message; the bits above are `unsent` and `known`
_UNSENT = const(0x4000)
_KNOWN = const(0x8000)
_SET_CS = const(173_568_960_000)  # 2025: an earlier clock was reset
_BOOT = const(0x3FFFFF)  # bits of the number of a boot
_CLOCK = const(0x7FFFFFFFFF)  # and of its clock
_PHASES = ("read", "journal", "wifi", "connect", "deliver")


class Memory:
    """The data that a device remembers while it sleeps; `data` are the argument of the last remember(), or None.
    since: wakes since the last report; sync: reports since the clock was set, also those without a connection, 255:
    never; full: messages refused by a full journal, missed: reports that did not
    reach the broker, both since the last power cut; known: the session is subscribed to what a file says (see _stored),
    and each CONNECT since then was answered; unsent: the last wake had no connection. clock: when the next wake begins,
    in 1/100 s since 1970, or since the boot, see _UPTIME; 0: not known. boot: number of the boot's first message, its
    last bits. doubts: about the clock."""

    FORM = "<BBBBH5HQ"

    def __init__(self, data):
        self.fresh = not data or len(data) != struct.calcsize(self.FORM)
        if self.fresh:
            self.since = self.sync = _NEVER
            self.full = self.missed = 0
            self.health = _MOST_WAKES
            self.known = self.unsent = False
            self.boot = self.clock = self.doubts = 0
            self.phases = [0] * len(_PHASES)
        else:
            numbers = struct.unpack(self.FORM, data)
            self.since, self.sync, self.full, self.missed, health = numbers[:5]
            self.health = health & _MOST_WAKES
            self.known = health >= _KNOWN
            self.unsent = health & _UNSENT > 0
            self.phases = list(numbers[5:-1])
            self.doubts = numbers[-1] >> 61
            self.boot = numbers[-1] >> 39 & _BOOT
            self.clock = numbers[-1] & _CLOCK

    def pack(self):
        """What remember() is to be given."""
        few = [min(n, 255) for n in (self.since, self.sync, self.full, self.missed)]
        health = min(self.health, _MOST_WAKES)
        health |= (_KNOWN if self.known else 0) | (_UNSENT if self.unsent else 0)
        phases = [min(n, _MAX) for n in self.phases]
        last = min(self.doubts, _DOUBTS) << 61 | (self.boot & _BOOT) << 39 | self.clock
        return struct.pack(self.FORM, *(few + [health] + phases + [last]))


def _left(period, awake_ms):
    # The time until the next wake; a long wake does not delay later ones.
    return period - awake_ms % period


class SleepingApp(Node):
    """The firmware of a device that sleeps most of the time; Node documents the arguments."""

    RECONNECT = False  # one attempt for each wake

    @staticmethod
    def timeout(config):
        """The steps of a failing connection together take half of the wake at most."""
        return min(config.timeout_ms, config.awake_ms // (2 * _STEPS))

    @staticmethod
    def slept(board, config):
        """What the last wake left of its period, less what a timer may be too fast."""
        memory = Memory(board.recall())
        if memory.fresh or board.reset_cause() != DEEP_SLEEP or max(memory.phases) == _MAX:
            return 0
        return _left(config.sleep_ms, sum(memory.phases)) * 15 // 16000

    def __init__(self, board, config, journal, client, flash, sources=None, began=None, crash=None):
        super().__init__(board, config, journal, client, flash, sources, began, crash)
        self._began = self._phase_at = self._up_at
        self._end = ticks_add(self._began, config.awake_ms)
        self._memory = memory = Memory(board.recall())
        self._phases = []
        self._stay = False  # a command asked for it
        self._renewed = None  # what this wake tells the broker once more, as a number, see _has_subscription
        self.full = memory.full
        self._recall_time()

    def _recall_time(self):
        memory = self._memory
        self._doubts = memory.doubts
        self._clock_is_set = memory.sync != _NEVER and self._board_cs() > _SET_CS
        expected = memory.clock if self.board.reset_cause() in (DEEP_SLEEP, SOFT) else 0
        if memory.clock:
            memory.clock = 0
            self.board.remember(memory.pack())  # unless this wake ends as it should
        self._go_on(expected, memory.boot, self.config.sleep_ms // 80 + 1_000, self._clock_is_set)

    def set_interval(self, ms):
        raise ValueError("this device sleeps between readings: change sleep_ms in its configuration")

    def _feed(self):
        if self.config.watchdog_ms:
            self.board.watchdog(self.config.watchdog_ms)

    def stay_awake(self, ms):
        """Stays awake, and connected, for so long from now on; 0: no longer."""
        self._stay = ms > 0
        if self._stay:
            self._end = ticks_add(ticks_ms(), ms)

    def run(self):
        """Runs one wake. Returns for how many ms the device sleeps; 0: restart."""
        memory = self._memory
        config = self.config
        self._feed()
        ms = telemetry.start(self.sources)
        if ms:
            self.board.sleep(ms)
        readings = self._read()
        self._end_phase()
        self._gather_with_last()
        if self._undated and self.synchronised:
            self._date_readings()
        self._publish_telemetry(readings)
        self._end_phase()
        memory.since += 1
        memory.health += 1
        if memory.since >= config.report_every or config.trial or self.update or self._half_full():
            self._report_all()
        if self.later:
            self.later()  # the connection broke behind the command
        if self.update:
            self.update.close()
        while len(self._phases) < len(_PHASES):
            self._end_phase()
        memory.phases = self._phases
        memory.full = self.full
        memory.unsent = not self.client.session.count[CONNECTS]
        left = 0 if self.stopping else self._left()
        self.remember(left)
        return left

    def remember(self, left_ms=0):
        """Keeps the time, and what else the next start needs, which comes in left_ms."""
        memory = self._memory
        memory.boot = self._boot
        memory.doubts = self._doubts
        memory.clock = self._clock_cs() + left_ms // 10
        self.board.remember(memory.pack())

    def _gather_with_last(self):
        # If this wake is not to report, or the last one was and could not. The reading goes into the message of the
        # last wake, if nobody can have seen that.
        memory = self._memory
        unsent, memory.unsent = memory.unsent, False
        if memory.since + 1 < self.config.report_every or (unsent and not memory.since):
            self._gather()
            if self._batch and unsent:
                self._batch.load()

    def _half_full(self):
        return self.journal.used * 2 >= self.journal.limit

    def _end_phase(self):
        # A phase ends here.
        now = ticks_ms()
        self._phases.append(ticks_diff(now, self._phase_at))
        self._phase_at = now

    def _left(self):
        return _left(self.config.sleep_ms, ticks_diff(ticks_ms(), self._began))

    # --- with the radio on ---

    def _report_all(self):
        memory = self._memory
        memory.since = 0
        if memory.sync < _NEVER - 1:
            memory.sync += 1
        online = self._is_online()
        self._end_phase()
        if online and self._connect():
            self._end_phase()
            if self._deliver():
                if self._renewed is not None:
                    self._keep_renewed()
                return
        memory.missed += 1

    def _is_online(self):
        if self.network.status() == ONLINE:
            return True
        left = self.config.awake_ms // 2
        end = ticks_add(ticks_ms(), left)
        for _ in range(_JOINS if self.config.joins else 0):
            self._set_up_network()
            if self.network.join(left, self.config.wifi_ssid, self.config.wifi_key) == ONLINE:
                return True
            left = ticks_diff(end, ticks_ms())
            if left <= 0:
                break
        return False

    def _connect(self):
        if self.config.tls_ca:
            self._keep_time()  # TLS needs it
        client = self.client
        memory = self._memory
        client.on_message = self._on_message
        present = memory.known
        if present:
            memory.known = False  # unless CONNECT is answered
            self.board.remember(memory.pack())
        try:
            client.connect()
        except (OSError, ProtocolError) as e:
            client.on_error(e)
        if client.connected:
            try:
                client.run_for(1)  # the readings leave before all else
                memory.known = self._has_subscription(present and client.session.present)
            except (OSError, ProtocolError):
                pass  # on_disconnect() was called, or the flash is full
        if not self.config.tls_ca:
            self._keep_time()  # while the broker answers
        return client.connected

    def _on_message(self, message):
        # Of a session that has its subscription of an earlier wake, and perhaps others.
        if (message.topic + "/").startswith(self._base + "command/"):
            self._on_command(message)
        else:
            self.client.on_error(OSError(ENOENT, "no handler takes messages to " + message.topic))

    # --- what the session is subscribed to, and Home Assistant was told: a file has a number of that, and when ---
    # Most wakes find their session, and load neither what subscribes nor what takes messages. But a broker may be back
    # with an older state. So it is told all once a day, by the numbers of messages: there may be no clock.

    def _has_subscription(self, present):
        # Subscribes, unless `present` says that the session is there which the file tells of. Returns True if the next
        # wake need not. It has to for updates: announcements of releases are retained, they come with each SUBSCRIBE.
        # What the start before the first wake subscribes to may be more. Raises OSError.
        config = self.config
        told = config.host, config.port, config.protocol_level, self._base, config.most_qos, config.ha
        number = crc32(repr(told).encode())
        messages = _DAY_S * 1000 // (config.sleep_ms * config.report_every)
        try:
            of, at = kept_json(beside(self.board, "subscribed"), None)
            is_new = of == number and 0 <= self.journal.next_seq - at < messages
        except (OSError, TypeError, ValueError):
            is_new = False  # it cannot be read now, or is none
        self._renewed = None if is_new else number
        granted = (present and is_new) or self.subscribe()
        return granted and not config.update_keys and self.board.reset_cause() == DEEP_SLEEP

    def _keep_renewed(self):
        # Behind the last acknowledgement: the broker has all that was sent before.
        try:
            write(beside(self.board, "subscribed"), "[%d, %d]" % (self._renewed, self.journal.next_seq))
        except OSError:
            pass  # the flash is full: the next wake tells all once more

    def _deliver(self):
        # Returns True if the broker has completed all messages.
        memory = self._memory
        config = self.config
        given_up = self._confirm()
        first = self.board.reset_cause() != DEEP_SLEEP
        if first and not given_up:
            self._publish_status("online")
        if log.waiting:
            self._publish_log()
        # Sends status and health with the backlog while max_inflight allows it; not to a broker that acknowledges
        # nothing.
        if (self.client.pending <= config.max_inflight and not self._half_full()) or self._exchange(False):
            if memory.health >= min(config.health_ms // config.sleep_ms, _MOST_WAKES):
                memory.health = 0
                self._publish_health(wake=self._wake())
            self._publish_asleep(ticks_diff(ticks_ms(), self._began))
        if self.home:
            # What was announced is retained, unless the broker has lost it: with the session, or nobody knows when.
            self.home.step(first or self._renewed is not None or not self.client.session.present)
        until_report_ms = ticks_diff(ticks_ms(), self._began)
        done = self._exchange(True)
        if self._end_of_stay() and not self.stopping:
            self._publish_asleep(until_report_ms)
            done = self._exchange(False)
        if self.stopping:
            self._publish_status("offline")
            done = self._exchange(False)
        self.client.disconnect(config.protocol_level > 4 and not self.stopping)
        return done

    def _publish_asleep(self, until_report_ms):
        # The next report comes as long after its wake began as this one.
        config = self.config
        next_ms = self._left() + (config.report_every - 1) * config.sleep_ms + until_report_ms
        self._publish_status("asleep", next_s=-(-next_ms // 1000))

    def _end_of_stay(self):
        stayed, self._stay = self._stay, False
        if stayed:
            self._end = ticks_add(ticks_ms(), self.config.timeout_ms)
        return stayed

    def _exchange(self, listen):
        # Waits until the broker has completed all messages and, if listening, sends nothing more. False after a
        # time-out, or if the connection is lost.
        client = self.client
        count = client.session.count
        seen = -1
        since = ticks_ms()
        while client.connected and ticks_diff(self._end, ticks_ms()) > 0:
            if not self._is_sending() and not listen:
                return True
            try:
                client.run_for(_SLICE)
            except (OSError, ProtocolError):
                return False  # on_disconnect() was called
            now = ticks_ms()
            if self.later:
                self.later()
            if self._stay:
                self._feed()
            if self.update:
                self.update.step()
            news = count[RECEIVED] + count[DUPLICATES] + count[TOO_LONG]
            if self._is_sending() or news != seen or (self.update and self.update.busy):
                seen = news
                since = now
            elif ticks_diff(now, since) >= _QUIET_MS and (self.stopping or not self._stay):
                return True
        return False

    def _is_sending(self):
        # Messages that were set aside wait for another wake.
        client = self.client
        return client.pending and any(message[5] != "set aside" for message in client.pending_messages())

    def _keep_time(self):
        memory = self._memory
        period = self.config.sleep_ms * self.config.report_every
        if self._clock_is_set and not self._doubts and memory.sync <= min(_SYNC_MS // period, _NEVER - 2):
            return
        if self._sync_time(memory.sync * period // _DRIFT_MS, max(2, min(_SYNC_MS // period, _DOUBTS))):
            if self._undated:
                self._date_readings()
            if not self._undated:  # else the journal is full: the next wake goes on without the time, and tells it then
                memory.sync = 0

    def _wake(self):
        # How long the last wake took; None without remembered data.
        memory = self._memory
        if memory.fresh:
            return None
        wake = dict(zip(_PHASES, memory.phases))
        wake["total"] = sum(memory.phases)
        wake["missed"] = memory.missed
        return wake
