"""A device, its flash, its network and its broker: plays scripts. A script is a list of steps, so that it can be kept
as a file; ["publish", 30, 1] is a step, and _do_publish() tells what it means."""

import contextlib
from errno import ENOBUFS

from dev.reference.kinds import PUBACK, PUBCOMP, PUBREC
from dev.reference.oracle import OTHER, Finding
from dev.reference.wire import puback, pubcomp, pubrec
from host_tests.crash.messages import outgoing
from host_tests.crash.peer import Peer
from host_tests.crash.wired import Device, HandlerError, aged, mounted
from inflight import OutboxFull
from inflight.counters import DROPPED
from inflight.packet import ProtocolError
from test_journal import numbers

# Settings of the device, as Client takes them but for "buffer", a size; a restart may change each.
DEVICE = {
    "max_inflight": 3,
    "receive_maximum": 4,
    "when_full": None,
    "protocol_level": 4,
    "buffer": 256,
    "clean_session": False,
}
SETUP = {
    "granularity": "page-4",
    "sectors": 4,
    "size": 1024,
    "age": 40,  # messages that the journal has seen before
    "last_mid": 40,
    "stuck": 0,
    "stranger": [],  # ids that a session of the same name has in use at the broker
    **DEVICE,
}
# What may happen to an operation of the flash while the device lives on: it raises an error, does nothing, cannot be
# read back, or the program is interrupted in front of it.
STUMBLES = ("fails", "ignored", "unread", "interrupt")
_FAULTS = {"fails": "program", "ignored": "ignore", "unread": "read"}  # what NorFlash calls them
_ENOUGH = 5000  # turns until everything must have been said


class State:
    """All that outlives a power cut but the flash: the peer, and the settings of the device. A Tape keeps copies."""

    def __init__(self, setup):
        self.peer = Peer()
        if setup["stranger"] and not setup["stuck"]:  # a journal with received ids has met its session
            self.peer.stranger(setup["stranger"])
        self.settings = {name: setup[name] for name in DEVICE}  # replaced when a step changes them
        self.mode = ["ok"]  # what the handler does
        self.rotten = False  # a bit has flipped
        self.step = 0  # steps of the script that have begun
        self.phase = "mount"
        self.device = None

    def copy(self):
        other = State.__new__(State)
        other.__dict__.update(self.__dict__)
        other.peer = self.peer.copy()
        other.settle_drops()
        other.device = None
        return other

    def settle_drops(self):
        """Adds up what full journals gave up in this life of the device."""
        if self.device:
            self.peer.out.gone += self.device.session.count[DROPPED]


class World:
    """`flash`: a function that makes the model of the flash, of a whole setup."""

    def __init__(self, setup, flash=aged):
        self.setup = {**SETUP, **setup}
        self.flash = flash(self.setup)
        self.state = State(self.setup)
        self._struck = False  # an operation of the flash has failed

    @property
    def peer(self):
        return self.state.peer

    @property
    def device(self):
        return self.state.device

    # --- power ---

    def power_cut(self, arrive=None, lost=None):
        """The device is no more; so many packets of its last ones still reach the broker. lost: of what it had not
        synced some is lost, a number tells which; None: nothing."""
        self.state.settle_drops()
        self.state.device = None
        if self.flash.off:
            self.flash.power_on()
        elif lost is not None:
            self.flash.restore(self.flash.snapshot(), self.flash.unsynced(), lost)
        self.peer.power_cut(arrive, lost is not None)

    def interrupted(self):
        """The program was, and goes on: what was under way may have happened or not. If half a packet may have been,
        the client has to end the connection: to the peer all that follows there is out of place. Else the link
        breaks."""
        self.peer.power_cut(None)
        if self.device and self._linked() and not self.device._is_interrupted():
            self.device.wire.broken = True

    def power_on(self):
        """Everything but flash and broker begins anew."""
        state = self.state
        state.phase = "mount"
        journal = mounted(self.flash)
        state.peer.out.durable()
        if journal.damaged and not state.rotten:
            raise Finding(OTHER, f"the mount found {journal.damaged} records damaged, and only power was cut")
        if state.rotten:  # the newest record is told by `skipped` alone: it may be one that was cut short
            state.peer.damaged(journal.damaged + (journal.skipped > 0))
        if len(set(numbers(journal))) != journal.live:
            raise Finding(OTHER, f"a message stands in the journal twice: {numbers(journal)}")
        state.phase = "work"
        options = {**state.settings, "buffer": bytearray(state.settings["buffer"])}
        state.peer.window = options["max_inflight"]
        if options["clean_session"]:
            state.peer.out.will_ask_clean()
        state.device = Device(journal, state.peer, **options)
        # Ids of messages to the client need room in the journal, too.
        state.peer.server.window = min(options["receive_maximum"], self.flash.blocks * self.flash.block_size // 512)
        state.device.subscribe("in/#", 2, self._heard, stream=True)

    # --- faults of the flash ---

    def rot(self, n):
        """A bit flips, the n-th of those in bytes that are programmed. Not beside a session that the journal had not
        met: the power may have been cut between the two copies of what tells its ids."""
        data = self.flash.data
        places = [i for i, byte in enumerate(data) if byte != 0xFF]
        if places and not self.setup["stranger"]:
            data[places[n // 8 % len(places)]] ^= 1 << n % 8
            self.state.rotten = True

    def stumble(self, k, what, steps):
        """Plays the steps; operation k of the flash meets one of STUMBLES."""
        left = [k]

        def strike(name, at, old, new):
            left[0] -= 1
            if left[0] >= 0 or self._struck:
                return
            if what == "ignored" and (old == new or name == "erase"):
                return  # no fault; the model refuses what is programmed over old bytes
            self._struck = True
            self.peer.stumble()
            if what == "interrupt":
                raise KeyboardInterrupt
            self.flash.fail_at(0, _FAULTS[what])

        self.flash.watch = strike
        try:
            self._play_struck(steps)
        except KeyboardInterrupt:
            self.interrupted()
            self.play(steps)

    def _play_struck(self, steps):
        try:
            self.play(steps)
        except OSError:
            if self.device:
                raise
            self.play(steps)  # the mount failed: it starts again

    def _may_fail(self, call):
        # Where a client may raise what the flash did; and connect() when more messages of QoS 2 are in flight than it
        # takes since its last start: some at each connection.
        try:
            call()
        except OSError as error:
            if not self._struck and error.errno != ENOBUFS:
                raise
            return error

    # --- scripts ---

    def play(self, steps):
        """Plays the steps that have not begun, then lets everything come to rest."""
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
        """The broker is well and the link is good: everything is delivered, and judged."""
        self.state.phase = "finish"
        self._do_settle()
        self._judge()

    def _judge(self):
        peer, device = self.state.copy().peer, self.device
        peer.judge()
        journal = device.journal
        if device.pending or journal.live:
            raise Finding(OTHER, f"{device.pending} messages are pending, {journal.live} in the journal")
        stuck = self.setup["stuck"] + 1
        if journal.used > 2 * journal.cost(14) + stuck * journal.cost(0) and peer.told and not peer.provoked:
            raise Finding(OTHER, f"{journal.used} bytes of the journal are in use, for nothing")
        if not peer.session or "in/#" not in peer.session.subscriptions:
            raise Finding(OTHER, "the subscription is gone")

    # --- the application ---

    def _heard(self, message):
        number = int(message.topic.rpartition("/")[2])
        self.peer.inc.hear(number, message.offset, message.payload, message.redelivered)
        if not self.peer.inc.ended:
            return
        if self.state.mode[0] == "raise":
            raise HandlerError
        if self.state.mode[0] == "publish":
            self._do_publish(*self.state.mode[1:])

    def _do_publish(self, size, qos, retain=0):
        """size -1: the longest that the journal takes."""
        device, out = self.device, self.peer.out
        most = device.journal.largest - 18
        size = most if size < 0 else min(size, most)
        message = outgoing(len(out.messages), qos, size, retain)
        number = out.begin(message, device.connected)
        if self.state.settings["when_full"]:
            out.let_go()
        seq = device.journal.next_seq
        try:
            mid = device.publish(*message)
        except (OutboxFull, OSError) as error:
            if qos and self.state.settings["when_full"] and not (self._struck and isinstance(error, OSError)):
                raise
            out.refuse(number)
            return
        out.handled()  # it may have waited for an acknowledgement
        if mid:
            out.accept(number, mid, seq)
        else:
            out.refuse(number)

    def _do_fill(self, size, qos):
        """Offline: until the journal is full, and some more."""
        if not self._linked():
            for _ in range(self.flash.blocks * self.flash.block_size // (size + 40)):
                self._do_publish(size, qos)

    def _do_handler(self, *mode):
        """ok; raise; publish SIZE QOS RETAIN."""
        self.state.mode = list(mode)

    def _do_subscribe(self, which, qos):
        self._ask(lambda: self.device.subscribe(f"x/{which}", qos, self._heard))

    def _do_unsubscribe(self, which):
        self._ask(lambda: self.device.unsubscribe(f"x/{which}"))

    def _ask(self, request):
        expected = (OSError, ProtocolError) if self.peer.provoked else OSError
        with contextlib.suppress(expected):
            request()

    def _do_connect(self, patience=None, arrive=None):
        """The link breaks when the broker has answered so often, or not at all (None); so many packets still arrive."""
        if self.device.connected and not self.device.wire.broken:
            return
        device = self.device
        device.patience, device.arrive = patience, arrive
        try:
            with contextlib.suppress(OSError):
                device.connect()
        finally:  # also when the program is interrupted in it
            device.patience = device.arrive = None
            if device.wire:
                device.wire.patience = device.wire.arrive = None

    def _do_disconnect(self):
        if not self._may_fail(self.device.disconnect):
            self.peer.out.durable()

    def _do_tidy(self):
        error = self._may_fail(self.device.session.collect)
        if error:
            self.device._connection_failed(error)
        else:
            self.peer.out.durable()

    # --- the network ---

    def _linked(self):
        return self.device.wire and not self.device.wire.broken

    def _do_up(self, n=None):
        """So many packets reach the broker, None: all."""
        if self._linked():
            self.peer.arrive(n)

    def _do_answer(self, i=0):
        """The i-th packet that the broker would send reaches the client."""
        if self._linked():
            self.peer.hand_out()
            if self.peer.answers:
                self._hand(self.peer.next(i))

    def _hand(self, raw):
        self.device.hand(raw)
        if self.peer.inc.owed and self._linked():
            raise Finding(OTHER, f"the client owes {self.peer.inc.owed}")

    def _do_drop(self, arrive=None):
        """The link breaks, so many packets still arrive; the client is not told."""
        if self._linked():
            self.device.wire.tear(arrive)

    def _do_look(self):
        """The client looks whether something has come."""
        if self.device.wire:
            self.device.turn()

    # --- the broker ---

    def _do_give(self, qos, size):
        self.peer.give(qos, size)

    def _do_again(self, i=0):
        if self._linked():
            self.peer.again(i)

    def _do_amnesia(self):
        self._do_drop(0)
        self.peer.amnesia()

    def _do_stray(self, kind, mid):
        """An acknowledgement for an id that is not in use."""
        while self.peer.out.owner(mid):
            mid = mid % 65535 + 1
        self._force(kind, mid)

    def _do_wrong(self, i):
        """An acknowledgement of the other QoS."""
        exchanges = [e for e in self.peer.out.open.values() if e.mid]
        if exchanges:
            e = exchanges[i % len(exchanges)]
            self._force(PUBACK if e.qos == 2 else PUBCOMP, e.mid)

    def _force(self, kind, mid):
        if self._linked() and self.device.connected:
            self.peer.provoked = True
            self.peer.out.handled()
            self._hand({PUBACK: puback, PUBREC: pubrec, PUBCOMP: pubcomp}[kind](mid))

    # --- time ---

    def _do_repeat(self):
        """Nothing was answered for long: at level 3 the client says it all again."""
        if self._linked() and self.device.connected and self.state.settings["protocol_level"] == 3:
            self.device.session._retransmit()
            self.device.turn()

    # --- all of it ---

    def _do_restart(self, settings, arrive=None, lost=None):
        """`settings`: those that change, {name: value}; the rest as for power_cut()."""
        self.power_cut(arrive, lost)
        self.state.settings = {**self.state.settings, **settings}
        self.power_on()

    def _do_settle(self):
        """Everything is said that anybody has to say."""
        for _ in range(_ENOUGH):
            if not self._linked() or not self.device.connected:
                self._may_fail(self.device.connect)
            self.device.turn()
            if not self._linked():
                continue
            self.peer.arrive()
            self.peer.hand_out()
            if self.peer.answers:
                self._hand(self.peer.next())
            elif not self.peer.uplink:
                self._do_tidy()
                if self._linked():  # else the flash failed in it
                    return
            self._check()
        raise Finding(OTHER, "there is no end of it")
