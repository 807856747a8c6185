"""Tests of tools/worlds: small worlds have as many states as written here, and nothing is found in them; each planted
defect of the client is."""

import json

import pytest
from typer import Typer
from typer.testing import CliRunner

import inflight.journal.journal
from host_tests.crash import test_explorer as random_cuts
from host_tests.thorough import more
from inflight.session.session import Session
from inflight.states import DUPLICATE, NEW
from tools.crash import kept
from tools.crash.simulation import Simulation
from tools.reference.oracle import LOST, OTHER, TWICE, Finding
from tools.worlds import __main__ as main
from tools.worlds import search
from tools.worlds.search import explore
from tools.worlds.starts import STARTS, explore_starts
from tools.worlds.world import SETUP, Model, On, StoppedClock, Violation, World

# level, outgoing, incoming, breaks, cuts, after
SENT = World(4, (1, 2), (), 1, 0)
RECEIVED = World(4, (), (1, 2), 1, 0)
BOTH = World(4, (2,), (2,), 1, 0)
SENT_CUT = World(4, (2, 1), (), 0, 1, 1, 1)
RECEIVED_CUT = World(4, (), (2,), 0, 1)
STATES = {  # states, transitions, cuts
    SENT: (887, 1821, 0),
    RECEIVED: (245, 607, 0),
    BOTH: (1237, 3016, 0),
    SENT_CUT: (558, 1456, 509),
    RECEIVED_CUT: (62, 161, 25),
    World(4, (2,), (), 0, 2, 1, 1): (55, 176, 99),
    World(4, (0, 1), (0, 1), 0, 1, 0): (492, 1138, 569),
    World(5, (2, 1), (), 1, 0, None, 1): (736, 1460, 0),
    World(5, (2,), (), 0, 1, 0, 1): (27, 44, 22),
}
LARGE = SENT, BOTH, SENT_CUT, World(4, (0, 1), (0, 1), 0, 1, 0), World(5, (2, 1), (), 1, 0, None, 1)


def _acknowledges_the_oldest(monkeypatch):
    acknowledged = Session.acknowledged
    monkeypatch.setattr(
        Session, "acknowledged", lambda self, kind, mid: acknowledged(self, kind, self.mids[0] if self.rows else mid)
    )


def _repetition_is_delivered(monkeypatch):
    take = Session.take_qos_2
    monkeypatch.setattr(Session, "take_qos_2", lambda s, mid: {DUPLICATE: NEW}.get(kind := take(s, mid), kind))


def _moves_unheard(monkeypatch):
    monkeypatch.setattr(Session, "moved", lambda self, old, new: None)


def _erase_stays_unfinished(monkeypatch):
    monkeypatch.setattr(inflight.journal.journal.Journal, "_is_erase_unfinished", lambda *_: False)


def _without_dup(monkeypatch):
    random_cuts.DEFECTS["DUP is forgotten"][0](monkeypatch)


# In the orders of arrival, in broken links, in power cuts.
DEFECTS = {
    "an acknowledgement is taken for the oldest message's": (_acknowledges_the_oldest, {OTHER, LOST, TWICE}, SENT),
    "DUP is forgotten": (_without_dup, {OTHER}, SENT),
    "a repeated PUBLISH is delivered": (_repetition_is_delivered, {TWICE}, RECEIVED),
    "nobody hears that a record has moved": (_moves_unheard, {OTHER, LOST, TWICE}, SENT_CUT),
    "an erase that was cut short is not finished": (_erase_stays_unfinished, {OTHER, LOST}, SENT_CUT),
}


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch):
    monkeypatch.setattr("inflight.cpython.time", StoppedClock)
    search.model.cache_clear()
    yield
    search.model.cache_clear()


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect, monkeypatch):
    """And its script, played without snapshots, fails in the same way."""
    breaks, kinds, world = DEFECTS[defect]
    breaks(monkeypatch)
    with pytest.raises(Violation) as found:
        explore(world)
    error = found.value.error
    assert getattr(error, "kind", OTHER) in kinds
    with pytest.raises(type(error)) as again:
        kept.replay(json.loads(found.value.script(world)))
    assert str(again.value) == str(error)


@pytest.mark.parametrize("world", [*more(*LARGE), *(one for one in STATES if one not in LARGE)], ids=str)
def test_nothing_is_found_without_a_defect(world):
    found = explore(world)
    assert (found["states"], found["transitions"], found["cuts"]) == STATES[world]


@pytest.mark.parametrize("deep", [1, *more(2)])
def test_starts_that_are_cut_short(deep):
    found = [explore_starts(start, deep, 90) for start in STARTS]
    assert min(found) > 5 * deep, found


@pytest.mark.long("INFLIGHT_TOOLS")
def test_a_state_is_the_same_however_it_is_reached():
    """Restored snapshots, or all steps from the beginning: the keys are equal."""
    world = World(4, (2,), (1,), 1, 0)
    model = Model(world)
    states, reached = [model.first], {}
    for state in states:
        for successor in model.successors(state):
            if successor.key not in reached:
                reached[successor.key] = successor
                states.append(successor)
    assert len(states) > 100
    for state in [*reached.values()][::10]:
        simulation = Simulation(SETUP)
        simulation.power_on()
        for step in state.path.steps:
            simulation.do(step)
        assert On(simulation, state.path).key == state.key


@pytest.mark.long("INFLIGHT_TOOLS")
def test_command(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    monkeypatch.setattr(main, "WORLDS", {"sent, a cut": World(4, (2,), (), 0, 1, None, 1)})
    monkeypatch.setattr(main, "STARTS", {})
    command = Typer()
    command.command()(main.main)
    result = CliRunner().invoke(command, ["--jobs", "1"])
    assert result.exit_code == 0 and "37 states, 113 transitions, 22 cuts, 0 violations" in result.output, result.output
    assert "none of sent, a cut" in CliRunner().invoke(command, ["--world", "x"]).output
    monkeypatch.setattr(Session, "free_mid", lambda self, other: 7)
    search.model.cache_clear()
    result = CliRunner().invoke(command, ["--jobs", "1"])
    assert result.exit_code == 1 and "ids reused" in result.output, result.output
    with pytest.raises(Finding, match="Message ID 7"):
        kept.replay(kept.load(tmp_path / "found-sent-a-cut.json"))
