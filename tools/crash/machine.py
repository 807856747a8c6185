"""Generates scripts with Hypothesis: a state machine whose rules are the steps of a Simulation. Each script is then
explored. Findings are shrunk here, since Hypothesis would explore thousands of scripts for that."""

import importlib
import pkgutil
from collections import Counter, namedtuple
from itertools import count

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

import inflight
from tools.crash.cutting import GRANULARITIES
from tools.crash.explorer import Counterexample, Explorer, Focus
from tools.crash.simulation import SETUP, Simulation

# Hypothesis also draws numbers that stand in modules that are loaded: so all are, for the same scripts each time.
for found in pkgutil.iter_modules(inflight.__path__):
    importlib.import_module(f"inflight.{found.name}")

SIZES = st.one_of(st.integers(0, 300), st.sampled_from([0, 1, 20, 20, 60, 60, 100, 200, 500, -1]))
QOS = st.sampled_from([1, 2, 1, 2, 0])
FEW = st.integers(0, 3)
ARRIVE = st.sampled_from([None, 0, 1, 2])
# Small rings wrap around quickly, so there are more of them.
RINGS = 2 * [(4, 512), (4, 1024)] + [(3, 1024), (5, 512), (6, 512), (8, 512), (4, 2048), (4, 4096), (16, 1024)]
# For journals with checkpoints: so many sectors that some are not read.
LONGER_RINGS = [(16, 512), (16, 1024), (8, 512), (24, 512), (6, 1024), (5, 512), (64, 512), (32, 1024)]
SETUPS = st.fixed_dictionaries(
    {
        "age": st.one_of(st.none(), st.integers(0, 60)),
        "last_mid": st.sampled_from([40, 65530, 65534, 65535, 1, 300]),
        "stuck": st.sampled_from([0, 0, 1, 3]),
        "max_inflight": st.integers(1, 8),
        "receive_maximum": st.sampled_from([4, 1, 2, 10]),
        "protocol_level": st.sampled_from([4, 5, 4, 3, 5]),
        "when_full": st.sampled_from([None, None, "oldest", "newest"]),
        "buffer": st.sampled_from([256, 128, 1024]),
        "clean_session": st.sampled_from([False, False, True]),
        "aliases": st.sampled_from([0, 2, 1]),
        "foreign_ids": st.sampled_from([[], [], [], [41, 42, 43, 44], [1, 2, 3, 65535]]),
    }
)


# Sectors of rings that need not survive two bad bits at once; docs/limits.md tells.
_SMALL_RING = 4
_WORN_BIT = st.tuples(st.integers(0, 1 << 16), st.integers(0, 7), st.integers(0, 1)).map(list)
# What a search is about. rings: (sectors, size); undecided: the share of cuts that leave undecided bits; worn: bits
# that cannot be cleared, or not be set, as the setup of a Simulation tells them; checkpoints: so are those in journals.
Campaign = namedtuple("Campaign", "rings undecided worn checkpoints", defaults=(RINGS, 0, st.just([]), False))
CAMPAIGNS = {
    "cuts": Campaign(),
    "undecided": Campaign(undecided=0.8),
    "stuck": Campaign(worn=st.lists(_WORN_BIT, min_size=1, max_size=2)),
    "checkpoints": Campaign(LONGER_RINGS, 0.3, checkpoints=True),
    "three": Campaign([(3, 512), (3, 1024), (3, 1024), (3, 2048)]),
}


def _is_connected(script):
    return script.simulation.device and script.simulation.device.connected


def _is_offline(script):
    return not _is_connected(script)


def _can_be_filled(script):
    return _is_offline(script) and script.setup["sectors"] * script.setup["size"] <= 4096


# Rules that are one step of a Simulation: when it is possible (None: always), and what its arguments are drawn from.
STEPS = {
    "publish": (None, SIZES, QOS, st.sampled_from([0, 0, 1])),
    "fill": (_can_be_filled, st.sampled_from([20, 60, 100, 200, 300, 450]), QOS),
    "connect": (_is_offline, st.sampled_from([None, None, None, 0, 1, 2, 3, 4]), ARRIVE),
    "arrive": (_is_connected, ARRIVE),
    "incoming": (_is_connected, QOS, st.sampled_from([0, 5, 60, 300])),
    "redeliver": (_is_connected, FEW),
    "subscribe": (_is_connected, FEW, st.integers(0, 2)),
    "unsubscribe": (_is_connected, FEW),
    "break": (_is_connected, ARRIVE),
    "poll": (_is_connected,),
    "disconnect": (_is_connected,),
    "collect": (None,),
    "discard": (None, FEW),
    "lose_session": (None,),
    "stray_ack": (_is_connected, st.sampled_from([4, 5, 7]), st.sampled_from([1, 45, 70, 65535])),
    "wrong_ack": (_is_connected, FEW),
    "retransmit": (lambda script: _is_connected(script) and script.setup["protocol_level"] == 3,),
    "settle": (None,),
}


class Script(RuleBasedStateMachine):
    """Plays the rules and records them as a script. `search` chooses the flash, and explores the script."""

    search: "Search"
    steps: list | None = None

    @initialize(setup=SETUPS, data=st.data())
    def begin(self, setup, data):
        sectors, size = data.draw(st.sampled_from(self.search.campaign.rings))
        worn = data.draw(self.search.campaign.worn)[: 2 if sectors > _SMALL_RING else 1]
        # Ids that are never released count towards receive_maximum.
        setup["receive_maximum"] = max(setup["receive_maximum"], setup["stuck"])
        own = {"granularity": self.search.granularity, "sectors": sectors, "size": size, "worn": worn}
        setup = {**own, "checkpoints": self.search.campaign.checkpoints, **setup}
        self.setup, self.steps = setup, []
        self.simulation = Simulation(setup)
        self.simulation.power_on()
        self.failed = False

    def _do(self, *step):
        if self.failed:
            return
        self.steps.append(list(step))
        try:
            self.simulation.do(list(step))
        except Exception:  # the exploration finds it again
            self.failed = True

    @rule(n=st.integers(2, 12), size=SIZES, qos=QOS)
    def publish_many(self, n, size, qos):
        for _ in range(n):
            self._do("publish", size, qos, 0)

    @precondition(_is_connected)
    @rule(n=st.integers(1, 12), i=FEW)
    def receive_many(self, n, i):
        for _ in range(n):
            self._do("arrive", None)
            self._do("receive", i)

    @precondition(_is_connected)
    @rule(i=FEW)
    def receive(self, i):
        self.receive_many(1, i)

    @rule(mode=st.sampled_from([["ok"], ["raise"], ["publish", 20, 2], ["publish", 90, 1], ["publish", -1, 2]]))
    def handler(self, mode):
        self._do("handler", *mode)

    @precondition(_is_connected)
    @rule(n=st.sampled_from([1, 4, 5, 6]))
    def break_links(self, n):
        """Links break before the oldest message makes progress. After the second one it is sent alone, when a PINGREQ
        is answered; with the fifth one it is set aside."""
        self._do("poll")
        for k in range(n):
            self._do("break", None)
            self._do("poll")
            self._do("connect", None, 0)
            self._do("poll")
            if k:
                self._do("arrive", None)
                self._do("receive", 0)
                self._do("poll")

    @rule(
        window=st.integers(1, 8),
        inbound=st.sampled_from([1, 4, 10]),
        drop=st.sampled_from([None, "oldest", "newest"]),
        clean=st.booleans(),
        level=st.sampled_from([None, None, 3, 4, 5]),
        arrive=ARRIVE,
        lost=ARRIVE,
    )
    def restart(self, window, inbound, drop, clean, level, arrive, lost):
        inbound = max(inbound, self.setup["stuck"])
        settings = {"max_inflight": window, "receive_maximum": inbound, "when_full": drop, "clean_session": clean}
        if level:
            settings["protocol_level"] = level
        self._do("restart", settings, arrive, lost)

    def teardown(self):
        if self.steps is not None:
            self.search.explore(self.setup, self.steps)


def _add_rule(step, possible, *arguments):
    names = [f"argument{i}" for i in range(len(arguments))]

    def do(self, **given):
        self._do(step, *map(given.get, names))

    do.__name__ = f"do_{step}"  # by which Hypothesis leaves some rules out of a script
    made = rule(**dict(zip(names, arguments, strict=True)))(do)
    setattr(Script, step, precondition(possible)(made) if possible else made)


for _step, _row in STEPS.items():
    _add_rule(_step, *_row)


class Search:
    """Explores scripts until `cuts` are made. `found`: (setup, steps, Counterexample), shrunk, or None."""

    def __init__(self, number, cuts, ways=1, scripts=6, each=500, campaign="cuts"):
        self.campaign = CAMPAIGNS[campaign]
        self.count = Counter()
        self.found = None
        self._number = number
        self._cuts = cuts
        self._ways = ways
        self._scripts = scripts  # in a row on flash of one granularity
        self._each = each  # most cuts of one script

    def run(self):
        """Returns True if nothing was found."""
        kinds = list(GRANULARITIES)
        for batch in count(self._number):
            self.granularity = kinds[batch % len(kinds)]
            self._run_batch(self._number * 100_000 + batch)
            if self.is_over():
                break
        if self.found:
            self.found = shrunk(*self.found)
        return not self.found

    def is_over(self):
        return self.count["cuts"] >= self._cuts or self.found is not None

    def _run_batch(self, number):
        class Machine(Script):
            search = self

        options = settings(
            max_examples=self._scripts,
            stateful_step_count=40,
            deadline=None,
            database=None,
            print_blob=False,
            verbosity=Verbosity.quiet,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        )
        run_state_machine_as_test(seed(number)(Machine), settings=options)

    def explore(self, setup, steps):
        if self.is_over():
            return
        left = self._cuts - self.count["cuts"]
        undecided = self.campaign.undecided
        explorer = Explorer(setup, steps, self.count["scripts"], self._ways, undecided=undecided)
        try:
            explorer.explore(most=min(left, self._each))
        except Counterexample as found:
            self.found = setup, steps, found
        self.count["scripts"] += 1
        self.count += explorer.count


def shrunk(setup, steps, found):
    """Returns a shorter script, simpler setup and fewer cuts that still lead to a finding of the same kind."""
    best = setup, steps, found
    for cuts in _fewer(found.cuts):
        if better := _shows(setup, steps, cuts, found):
            best = setup, steps, better
            break
    n = (len(steps) + 1) // 2
    while n:
        for start in range(len(best[1]) - n, -n, -n):
            best = _try(best, best[0], best[1][: max(0, start)] + best[1][start + n :])
        n //= 2
    for name, value in SETUP.items():
        if best[0][name] != value:
            best = _try(best, {**best[0], name: value}, best[1])
    return best


def _fewer(cuts):
    for i in range(len(cuts)):
        yield cuts[i:][:1]
    if len(cuts) > 2:
        yield from (cuts[i : i + 2] for i in range(len(cuts) - 1))


def _try(best, setup, steps):
    found = _shows(setup, steps, best[2].cuts, best[2])
    return (setup, steps, found) if found else best


def _shows(setup, steps, cuts, found):
    """The Counterexample that these cuts lead to at any operation, None if none is of the same kind."""
    explorer = Explorer(setup, steps)
    try:
        if cuts:
            explorer.explore([Focus(*(*cut[1:], cut[0])) for cut in cuts])
        else:
            explorer.record()
    except Counterexample as other:
        if _kind(other) == _kind(found):
            return other
    return None


def _kind(found):
    return type(found.error), getattr(found.error, "kind", None)
