"""Simulates a device, its flash, its network and its broker, and plays scripts. A script is a list of steps, so it can
be saved as a file; the step ["publish", 30, 1] calls _do_publish(30, 1)."""

import contextlib
from errno import ENOBUFS

from account import read_all
from inflight import OutboxFull, properties
from inflight.counters import DROPPED
from inflight.journal.records import HEADER
from inflight.packet import ProtocolError
from inflight.states import IDLE, INTERRUPTED, UP
from ring import numbers
from tools.crash.device import WAITING, Device, HandlerError, aged, mounted
from tools.crash.messages import outgoing
from tools.crash.peer import Peer
from tools.reference.kinds import PUBACK, PUBCOMP, PUBREC
from tools.reference.oracle import OTHER, Finding
from tools.reference.server import Copyable
from tools.reference.wire import puback, pubcomp, pubrec

# Arguments of Client ("buffer" is a size here); a restart may change them.
DEVICE = {
    "max_inflight": 3,
    "receive_maximum": 4,
    "when_full": None,
    "protocol_level": 4,
    "buffer": 256,
    "clean_session": False,
    "aliases": 0,  # at level 5
}
SETUP = {
    "granularity": "page-4",
    "sectors": 4,
    "size": 1024,
    "checkpoints": False,  # in the journal, as a ring of more than 64 KiB has them
    "age": 40,  # messages that the journal contained before
    "last_mid": 40,
    "stuck": 0,  # received Message IDs that the broker never releases
    "worn": [],  # bits that cannot be cleared, or not be set: [address, bit, 0 or 1]
    "foreign_ids": [],  # Message IDs in use in the broker's session of this client id, by another journal
    **DEVICE,
}
# Faults of a flash operation while the device keeps running: it raises OSError, does nothing, cannot be read back,
# KeyboardInterrupt is raised before it, or a bit that it clears cannot be cleared from now on.
FAULTS = ("fails", "ignored", "unread", "interrupt", "stuck")
_NOR_FAULTS = {"fails": "program", "ignored": "ignore", "unread": "read"}  # arguments of NorFlash.fail_at()
_BITS = [1 << n for n in range(8)]
_META = properties(content_type="t")
_MOUNTS = 4  # of worn flash, until one must succeed
_FAILED = 200  # connections in a row that fail: worn flash stands still
_ENOUGH = 5000  # rounds until all exchanges must have ended, and one for each Message ID that is to be proven free


class State(Copyable):
    """All state besides the flash. A Tape keeps copies, without the device: that does not survive a power cut."""

    def __init__(self, setup):
        self.peer = Peer()
        if setup["foreign_ids"] and not setup["stuck"]:  # received ids in the journal mean that it knows its session
            self.peer.add_foreign_session(setup["foreign_ids"])
        self.settings = {name: setup[name] for name in DEVICE}  # replaced, never changed in place
        self.handler_mode = ["ok"]  # as for _do_handler()
        self.bit_flipped = False
        self.step = 0  # steps of the script that have begun
        self.phase = "mount"
        self.device = None

    def copy(self):
        other = super().copy()
        other.peer = self.peer.copy()
        other.count_drops()
        other.device = None
        return other

    def count_drops(self):
        """Adds up the messages that a full journal dropped since the device started."""
        if self.device:
            self.peer.out.dropped += self.device.session.count[DROPPED]


class Simulation:
    """`flash`: a function that makes the flash model from a setup."""

    def __init__(self, setup, flash=aged):
        self.setup = {**SETUP, **setup}
        self.flash = flash(self.setup)
        self.state = State(self.setup)
        self.peer.out.done_waiting = WAITING
        self._publishing = False
        self._fault_injected = bool(self.setup["worn"])  # operations of the flash have failed, or may fail
        self._wear(self.setup["worn"])

    @property
    def peer(self):
        return self.state.peer

    @property
    def device(self):
        return self.state.device

    # --- power ---

    def power_cut(self, arrive=None, lost=None):
        """The device loses power; `arrive` of its last packets still reach the broker (None: all). lost: a seed; some
        unsynced operations are lost. None: none is."""
        self.state.count_drops()
        self.state.device = None
        if self.flash.off:
            self.flash.power_on()
        elif lost is not None:
            self.flash.lose_cache(lost)  # not restore(), which forgets a cut that is still to come
        self.peer.power_cut(arrive, lost is not None)

    def interrupted(self):
        """The program handles KeyboardInterrupt and continues. The interrupted call may have taken effect or not. If a
        packet may have been sent in part, the client has to close the connection, and the peer checks that. Otherwise
        the link breaks here."""
        self.peer.power_cut(None)
        if self.device and self._linked() and not self._is_within_operation():
            self.device.transport.broken = True

    def power_on(self):
        """Starts the device: mounts the journal and creates the client."""
        state = self.state
        state.phase = "mount"
        journal = self._mounted()
        if state.bit_flipped:
            read_all(journal)  # what rots in a sector that a mount has not read is found when the device has time
        state.peer.out.durable()
        state.peer.out.read_anew()
        if (journal.found_damaged or journal.lost) and not state.bit_flipped:
            told = f"the mount found {journal.found_damaged} damaged records, and told of {journal.lost}"
            raise Finding(OTHER, f"{told}, after mere power cuts")
        if state.bit_flipped:  # damage to the newest record counts as `skipped`, like a record cut short
            state.peer.records_damaged(journal.found_damaged + (journal.found_skipped > 0))
        # To search them all would count them.
        all_counted = not hasattr(journal, "checkpoints") or not journal.checkpoints.uncounted
        if all_counted and len(set(numbers(journal))) != journal.live:
            raise Finding(OTHER, f"a message is in the journal twice: {numbers(journal)}")
        state.peer.out.may_be_any = state.bit_flipped or self._fault_injected
        state.phase = "work"
        journal.recover = self._recovering(journal.recover)
        options = {**state.settings, "buffer": bytearray(state.settings["buffer"])}
        if options["protocol_level"] < 5:
            del options["aliases"]
        state.peer.window = options["max_inflight"]
        if options["clean_session"]:
            state.peer.out.clean_session_requested()
        state.device = Device(journal, state.peer, **options)
        # Message IDs that the client receives take space in the journal, too.
        state.peer.server.window = min(options["receive_maximum"], self.flash.blocks * self.flash.block_size // 512)
        state.device.subscribe("in/#", 2, self._on_message, stream=True)

    def _recovering(self, recover):
        def run():
            before, self.state.phase = self.state.phase, "recovery"
            try:
                recover()
                self.peer.out.read_anew()
            finally:
                self.state.phase = before

        return run

    def _mounted(self):
        # A page that does not take what is programmed costs a mount; the next one passes it by.
        for _ in range(_MOUNTS if self.setup["worn"] else 0):
            with contextlib.suppress(OSError):
                return mounted(self.flash)
        return mounted(self.flash)

    # --- faults of the flash ---

    def _wear(self, bits):
        for place, bit, low in bits:
            place %= len(self.flash.data)
            worn = self.flash.low if low else self.flash.stuck
            worn[place] = worn.get(place, 0) | 1 << bit
            if low or place % self.flash.block_size < HEADER:
                self.state.bit_flipped = True  # counts as damage
        self.flash.on_worn = lambda: self.peer.interrupted()

    def rot(self, n):
        """Flips one bit, the n-th of those in programmed bytes."""
        data = self.flash.data
        if places := [i for i, byte in enumerate(data) if byte != 0xFF]:
            data[places[n // 8 % len(places)]] ^= 1 << n % 8
            self.state.bit_flipped = True

    def inject_fault(self, k, what, steps):
        """Plays the steps; operation k of the flash has the fault `what`, one of FAULTS."""
        left = [k]

        def inject(name, at, old, new):
            left[0] -= 1
            if left[0] >= 0 or self._fault_injected:
                return
            if what in ("ignored", "stuck") and (old == new or name == "erase"):
                return  # not a fault here: the program changes nothing, or the model would refuse later programs
            self._fault_injected = True
            self.peer.interrupted()
            if what == "stuck":
                self._make_stuck(k, at, old, new)
                return
            if what == "interrupt":
                raise KeyboardInterrupt
            self.flash.fail_at(0, _NOR_FAULTS[what])

        self.flash.watch = inject
        try:
            self._play_with_fault(steps)
        except KeyboardInterrupt:
            self.interrupted()
            self.play(steps)

    def _make_stuck(self, k, at, old, new):
        cleared = [(at + i, bit) for i in range(len(new)) for bit in _BITS if old[i] & ~new[i] & bit]
        place, bit = cleared[k % len(cleared)]
        self.flash.stuck[place] = bit
        self.state.bit_flipped = place % self.flash.block_size < HEADER  # counts as damage

    def _play_with_fault(self, steps):
        try:
            self.play(steps)
        except OSError:
            if self.device:
                raise
            self.play(steps)  # the mount failed: mount again

    def _may_fail(self, call):
        # A client may raise the flash's OSError; and connect() raises ENOBUFS while more QoS 2 messages are in flight
        # than receive_maximum, which the last restart may have reduced.
        try:
            call()
        except OSError as error:
            if not self._fault_injected and error.errno != ENOBUFS:
                raise
            return error

    # --- scripts ---

    def play(self, steps):
        """Plays the steps that have not begun, then completes all exchanges."""
        if not self.device:
            self.power_on()
        while self.state.step < len(steps):
            self.do(steps[self.state.step])
        self.finish()

    def do(self, step):
        self.state.step += 1
        name, *args = step
        getattr(self, "_do_" + name)(*args)
        self._check()

    def _check(self):
        if self.device and self.device.failure:
            raise self.device.failure

    def finish(self):
        """Completes all exchanges without further faults, and checks the result."""
        self.state.phase = "finish"
        self._do_settle()
        while getattr(self.device.journal, "unread", 0):  # it has time: a long journal counts what a start has left out
            self._do_settle()
        self._judge()

    def _judge(self):
        peer, device = self.state.copy().peer, self.device
        peer.judge()
        journal = device.journal
        if device.pending or journal.live:
            raise Finding(OTHER, f"{device.pending} messages are pending, {journal.live} in the journal")
        stuck = self.setup["stuck"] + 1
        if journal.used > 2 * journal.cost(14) + stuck * journal.cost(0) and peer.client_knows and not peer.provoked:
            raise Finding(OTHER, f"{journal.used} bytes of the journal are in use without need")
        if not peer.session or "in/#" not in peer.session.subscriptions:
            raise Finding(OTHER, "the subscription is lost")

    # --- the application ---

    def _on_message(self, message):
        number = int(message.topic.rpartition("/")[2])
        self.peer.inc.application_received(number, message.offset, message.payload, message.redelivered)
        if not self.peer.inc.complete:
            return
        if self.state.handler_mode[0] == "raise":
            raise HandlerError
        # Within publish() nobody could tell which of both messages was accepted first.
        if self.state.handler_mode[0] == "publish" and not self._publishing:
            self._do_publish(*self.state.handler_mode[1:])

    def _do_publish(self, size, qos, retain=0):
        """size -1: the longest message that fits the journal."""
        device, out = self.device, self.peer.out
        level = self.state.settings["protocol_level"]
        most = device.journal.largest - (18 if level < 5 else 23)
        size = most if size < 0 else min(size, most)
        message = outgoing(len(out.messages), qos, size, retain)
        number = out.begin(message, device.connected)
        meta = _META if number % 3 == 1 else None
        if meta and level == 5:
            self.peer.with_properties.add(number)
        if self.state.settings["when_full"]:
            out.may_drop()
        seq = device.journal.next_seq
        self._publishing = True
        try:
            mid = device.publish(*message, properties=meta)
        except (OutboxFull, OSError) as error:
            # Worn flash may have no erased sector left, until the broker has completed messages.
            worn = self.flash.stuck or self.flash.low
            excused = self._fault_injected and (isinstance(error, OSError) or worn)
            if qos and self.state.settings["when_full"] and not excused:
                raise
            out.refuse(number)
            return
        finally:
            self._publishing = False
        out.handled()  # publish() may have waited for an acknowledgement
        if mid:
            out.accept(number, mid, seq)
        else:
            out.refuse(number)

    def _do_discard(self, i):
        """The application gives up its i-th message that is not completed."""
        out = self.peer.out
        if exchanges := [e for e in out.open.values() if e.number in out.accepted]:
            e = exchanges[i % len(exchanges)]
            out.discarding(e)
            done = []
            self._may_fail(lambda: done.append(self.device.discard(e.mid)))
            if done == [True]:
                out.discarded.add(e.number)

    def _do_fill(self, size, qos):
        """If offline: publishes more than the journal holds."""
        if not self._linked():
            for _ in range(self.flash.blocks * self.flash.block_size // (size + 40)):
                self._do_publish(size, qos)

    def _do_handler(self, *mode):
        """What the message handler does: ok; raise; publish SIZE QOS RETAIN."""
        self.state.handler_mode = list(mode)

    def _do_subscribe(self, which, qos):
        self._ask(lambda: self.device.subscribe(f"x/{which}", qos, self._on_message))

    def _do_unsubscribe(self, which):
        self._ask(lambda: self.device.unsubscribe(f"x/{which}"))

    def _ask(self, request):
        expected = (OSError, ProtocolError) if self.peer.provoked else (OSError,)
        with contextlib.suppress(*expected):
            request()

    def _do_connect(self, max_answers=None, arrive=None):
        """Connects; the link breaks after `max_answers` answers of the broker (None: it does not). `arrive` packets
        then still arrive."""
        if self.device.connected and not self.device.transport.broken:
            return
        device = self.device
        device.max_answers, device.arrive = max_answers, arrive
        try:
            with contextlib.suppress(OSError):
                device.connect()
        finally:  # also after KeyboardInterrupt
            device.max_answers = device.arrive = None
            if device.transport:
                device.transport.max_answers = device.transport.arrive = None

    def _do_disconnect(self):
        if not self._may_fail(self.device.disconnect):
            self.peer.out.durable()

    def _do_collect(self):
        failed = self.device.session.busy  # before: nothing is done until recover()
        if error := self._may_fail(self.device.session.collect):
            self.device._connection_failed(error)
        elif not failed:
            self.peer.out.durable()

    # --- the network ---

    def _is_within_operation(self):
        # What Client._check_interrupted() finds while there is a link.
        device = self.device
        session = device.session
        flags = (device._guard & INTERRUPTED, session.busy, session.ready, session.out_left)
        return any(flags) or device._state not in (IDLE, UP)

    def _linked(self):
        return self.device.transport and not self.device.transport.broken

    def _do_arrive(self, n=None):
        """The next n packets reach the broker (None: all)."""
        if self._linked():
            self.peer.arrive(n)

    def _do_receive(self, i=0):
        """The client receives the i-th packet that the broker has to send."""
        if self._linked():
            self.peer.send_queued()
            if self.peer.answers:
                self._hand(self.peer.next(i))

    def _hand(self, raw):
        self.device.feed(raw)
        # A message without space is left with the broker while messages of the client complete.
        if self.peer.inc.unanswered and self._linked() and not self.device.session.left_with_broker:
            raise Finding(OTHER, f"the client did not answer {self.peer.inc.unanswered}")

    def _do_break(self, arrive=None):
        """The link breaks, `arrive` packets still arrive; the client's next read or write fails."""
        if self._linked():
            self.device.transport.break_link(arrive)

    def _do_poll(self):
        if self.device.transport:
            self.device.poll()

    # --- the broker ---

    def _do_incoming(self, qos, size):
        self.peer.publish_to_client(qos, size)

    def _do_send(self):
        if self._linked():
            self.peer.send_queued()

    def _do_redeliver(self, i=0):
        if self._linked():
            self.peer.redeliver(i)

    def _do_lose_session(self):
        self._do_break(0)
        self.peer.lose_session()

    def _do_stray_ack(self, kind, mid):
        """The broker acknowledges an id that is not in use."""
        while self.peer.out.owner(mid):
            mid = mid % 65535 + 1
        self._force(kind, mid)

    def _do_wrong_ack(self, i):
        """The broker acknowledges a message with a packet of the other QoS."""
        if exchanges := [e for e in self.peer.out.open.values() if e.mid]:
            e = exchanges[i % len(exchanges)]
            self._force(PUBACK if e.qos == 2 else PUBCOMP, e.mid)

    def _force(self, kind, mid):
        if self._linked() and self.device.connected:
            self.peer.provoked = True
            self.peer.out.handled()
            self._hand({PUBACK: puback, PUBREC: pubrec, PUBCOMP: pubcomp}[kind](mid))

    # --- time ---

    def _do_retransmit(self):
        """The retry time-out of level 3 expires: the client retransmits."""
        if self._linked() and self.device.connected and self.state.settings["protocol_level"] == 3:
            self.device.session.repeat_unanswered()
            self.device.poll()

    def _try_what_was_set_aside(self):
        # The pause passes. Returns True if something is tried again.
        aside = self.device.session.aside
        pending = self.device.pending
        if aside and pending:
            aside.left = pending
            aside.again = True
        return aside and pending

    # --- all of it ---

    def _do_restart(self, settings, arrive=None, lost=None):
        """Restarts with changed settings {name: value}; the other arguments as for power_cut()."""
        self.power_cut(arrive, lost)
        self.state.settings = {**self.state.settings, **settings}
        self.power_on()

    def _do_settle(self):
        """Exchanges packets until client and broker have none left."""
        rounds = unproven = failed = 0
        while rounds < _ENOUGH + unproven and failed < _FAILED:
            rounds += 1
            if not self._linked() or not self.device.connected:
                failed = failed + 1 if self._may_fail(self.device.connect) else 0
            self.device.poll()
            unproven = max(unproven, self.device.session.unproven)
            if not self._linked():
                continue
            self.peer.arrive()
            self.peer.send_queued()
            if self.peer.answers:
                self._hand(self.peer.next())
            elif not self.peer.uplink:
                self._do_collect()
                if self._linked() and not self._try_what_was_set_aside():  # otherwise the flash failed
                    return
            self._check()
        raise Finding(OTHER, "the exchanges never end")
