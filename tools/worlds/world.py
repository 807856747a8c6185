"""A small world: a client with a used journal in a ring of three sectors, its broker, and the few messages that they
have for each other. A World is its bound; a Model plays its actions on the real client."""

import pickle
from collections import namedtuple
from contextlib import contextmanager
from zlib import compress, decompress

import inflight.cpython
from account import quick_crc
from faults import Tape, cache_seed, cut
from inflight import Journal
from inflight.session.session import Session
from nor import NorFlash
from tools.crash import kept
from tools.crash.device import Device
from tools.crash.simulation import Simulation, State
from tools.reference.oracle import Incoming, Outgoing
from tools.worlds.snapshot import Snapshot

# outgoing, incoming: QoS of each message, in this order. breaks, cuts: how often the link may break, and the power be
# cut. after: how many actions follow a cut, in every order, before everything is completed in one order (None: all).
# waiting: how many of the outgoing messages wait for their PUBREC at the beginning.
World = namedtuple("World", "level outgoing incoming breaks cuts after waiting", defaults=(None, 0))

# The smallest sectors of which a ring of three takes all messages of a world at once.
SETUP = {"granularity": "page-256", "sectors": 3, "size": 2304, "age": None, "buffer": 256}
SETUP |= {"max_inflight": 2, "receive_maximum": 2}
_SMALL = 4  # bytes of payload
_SEEDS = (0, 1, 2)  # of cuts that lose operations which were not synced
_SEND = ["send"]  # the broker's queue never waits


def _prologue(world):
    # Leaves the SESSION record, and what is waiting, in the oldest sector, and in the newest one space for a single
    # message: with the next one a sector is collected, and erased.
    yield from (["connect"], ["poll"], ["publish", 2100, 1], ["arrive"], ["receive"])
    yield from (["publish", _SMALL, qos] for qos in world.outgoing[: world.waiting])
    for _ in range(11):
        yield from (["publish", 174, 1], ["arrive"], ["receive", world.waiting], ["collect"])
    yield from (["break"], ["poll"], ["restart", {}])


class StoppedClock:
    """The module `time` of the client: nothing in a world depends on time."""

    @staticmethod
    def monotonic_ns():
        return 0


def prepare():
    """Prepares a process: time does not pass, and a CRC takes a twentieth of it."""
    inflight.cpython.time = StoppedClock
    quick_crc()


def _without(names):
    names = names.split()
    return lambda fields: {name: fields[name] for name in fields if name not in names}


# Of its buffer a session has, beside what is written next, the message that was accepted last, or the head of the
# PUBLISH that was sent last, or nothing. What came is counted, not compared.
_BYTES = """buf into space spare start end at n size flags mid topic topic_len
    out view out_at out_size rest out_address _out_offset _payload_at _mid_at _form count"""


def _session(fields):
    kept = _without(_BYTES)(fields) | {"unread": fields["end"] - fields["start"]}
    if fields["_first"] or fields["_accepted"] >= 0:
        kept |= {name: fields[name] for name in ("out_size", "_payload_at")}
    if fields["_accepted"] >= 0:
        kept["message"] = bytes(fields["out"][: fields["out_size"]])
    # Behind the rows is what was there before.
    limit, rows, rows_in = (fields.get(name, 0) for name in ("limit", "rows", "rows_in"))
    for name in ("mids", "addresses", "states"):
        kept[name] = (*fields[name][:rows], *fields[name][limit : limit + rows_in])
    return kept | {"most_rows": len(fields["mids"])}


def _messages(fields):
    # They follow from their number. So many connections that one is set aside has no world.
    return _without("may_be_aside seqs")(fields) | {"messages": len(fields["messages"])}


# The others are counters, times, and what an operation leaves in its buffers. All fields of classes of level 5 count.
FORMS = {
    Device: _without("_next_attempt _attempts _runner _last_error"),
    NorFlash: _without("_random reads programmed programs erases syncs watch _left _outcome _lost _until"),
    Incoming: _messages,
    Journal: _without(
        "_h _part _chunk _four _mark _page _crc _k _from _base _kind found_seq found_mid found_len found_state"
    ),
    Outgoing: _messages,
    Session: _session,
    Simulation: _without("setup"),
    State: _without("step phase settings"),
}

# The steps of a Simulation, and the cuts as in a kept script, that lead to a state; how many operations of the flash
# came since the last cut, and how many actions since the beginning; and how many breaks and cuts are left.
Path = namedtuple("Path", "steps cuts operations depth left")


class On:
    """A state of a client that runs. It is of no use in another process."""

    def __init__(self, simulation, path):
        self._snapshot = Snapshot((simulation, path.left), FORMS)
        self.key = self._snapshot.key
        self.path = path

    def restore(self, _):
        self._snapshot.restore()


class Off:
    """A state without power: what the flash holds, and what broker and judge know."""

    def __init__(self, simulation, path):
        self.key = Snapshot((simulation, path.left), FORMS).key
        self.path = path
        self._kept = compress(pickle.dumps((simulation.flash.snapshot(), simulation.state)), 1)

    def restore(self, simulation):
        data, simulation.state = pickle.loads(decompress(self._kept))
        simulation.flash.restore(data)


class Violation(Exception):
    """`path` leads to `error`."""

    def __init__(self, path, error):
        super().__init__(path, error)
        self.path, self.error = path, error

    def __str__(self):
        return f"{type(self.error).__name__}: {self.error}"

    def script(self, world):
        """The text of a kept script."""
        return kept.text({**SETUP, "protocol_level": world.level}, self.path.steps, self.path.cuts, str(self.error))


@contextmanager
def _violations(path):
    try:
        yield
    except Exception as error:
        raise Violation(path, error) from error


class Model:
    """Plays the actions of a World. `first`: its first state, without power."""

    def __init__(self, world):
        self._world = world
        self._simulation = simulation = Simulation({**SETUP, "protocol_level": world.level})
        flash = simulation.flash
        path = Path((*_prologue(world),), (), 0, 0, (world.breaks, world.cuts))
        with _violations(path):
            simulation.power_on()
            for step in path.steps[:-1]:
                simulation.do(step)
        self._published = len(simulation.peer.out.messages) - world.waiting
        simulation.power_cut()
        self.first = Off(simulation, path._replace(operations=flash.programs + sum(flash.erases)))

    def successors(self, state):
        """Yields On and Off: what each action leads to, and each cut of the power in it."""
        state.restore(self._simulation)
        for action in [*self._actions(*state.path.left)]:
            state.restore(self._simulation)
            yield from self._play(state.path, *action)

    def settle(self, state):
        """Completes everything, without a fault."""
        state.restore(self._simulation)
        with _violations(state.path):
            self._simulation.finish()

    def _actions(self, breaks, cuts):
        # (how many breaks it takes, the steps)
        simulation, world = self._simulation, self._world
        device, peer = simulation.device, simulation.peer
        if not device:
            yield 0, ()  # it starts
            return
        connected = device.connected and not device.transport.broken
        packets = range(len(peer.uplink) + 1)
        n = len(peer.out.messages) - self._published
        if n < len(world.outgoing) and (connected or world.outgoing[n]):
            yield 0, (["publish", _SMALL, world.outgoing[n]], _SEND)
        n = len(peer.inc.messages)
        if n < len(world.incoming):
            yield 0, (["incoming", world.incoming[n], _SMALL], _SEND)
        yield 0, (["collect"], _SEND)
        if connected:
            waiting = [packet[:2] for packet in peer.answers]  # those with the same Message ID keep their order
            yield from ((0, (["receive", waiting.index(packet)], _SEND)) for packet in dict.fromkeys(waiting))
            if peer.uplink:
                yield 0, (["arrive", 1], _SEND)
            if breaks:
                yield from ((1, (["break", k],)) for k in packets)
        else:
            yield 0, (["connect"], ["poll"], _SEND)
            if breaks:
                yield from ((1, (["connect", answers, k], _SEND)) for answers in (0, 1) for k in (0, 1))
        if cuts:
            seeds = (None, *_SEEDS) if simulation.flash.unsynced() else (None,)
            yield from ((0, (["restart", {}, k, seed],)) for k in packets for seed in seeds)

    def _play(self, path, broken, steps):
        simulation = self._simulation
        breaks, cuts = path.left
        path = path._replace(steps=path.steps + steps, depth=path.depth + 1, left=(breaks - broken, cuts))
        cut_left = breaks - broken, cuts - 1
        if steps and steps[0][0] == "restart":  # power is cut between two operations
            simulation.power_cut(*steps[0][2:])
            yield Off(simulation, path._replace(left=cut_left))
            return
        tape = Tape(simulation.flash, simulation.state)
        with _violations(path):
            if not steps:
                simulation.power_on()
            for step in steps:
                simulation.do(step)
        operations = tape.stop()
        yield On(simulation, path._replace(operations=path.operations + len(operations)))
        for k, operation in enumerate(operations if cuts else ()):
            for way in ways_of(operation):
                for arrive in range(len(operation.promised.peer.uplink) + 1):
                    seed = cache_seed(way)
                    simulation.state = cut(simulation.flash, operation, way)
                    simulation.peer.power_cut(arrive, seed is not None)
                    here = (*path.cuts, [path.operations + k, way, arrive, True])
                    yield Off(simulation, path._replace(cuts=here, operations=0, left=cut_left))


def ways_of(operation):
    """Ways to cut it: some of each kind."""
    changed = sum(old != new for old, new in zip(operation.old, operation.new, strict=True))
    yield from (["before"], ["torn", changed // 2, 0], ["after"])
    if operation.name == "erase":
        yield ["suffix", changed // 2, 0]  # from its end
    if operation.unsynced:
        yield from (["lost", seed] for seed in _SEEDS)
