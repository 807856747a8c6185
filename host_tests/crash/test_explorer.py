"""Tests of the crash explorer: it finds every injected defect of the client, and nothing without one."""

import pytest

import inflight.journal.sectors
from host_tests.thorough import THOROUGH, more, some
from inflight import Journal
from inflight.session.session import Session
from tools.crash import machine
from tools.crash.cutting import GRANULARITIES
from tools.crash.explorer import Counterexample, Explorer, Focus
from tools.crash.machine import Search
from tools.crash.simulation import FAULTS, Simulation
from tools.crash.wear import Endurance
from tools.reference.oracle import LOST, ORDER, OTHER, REUSED, TWICE

# Messages in both directions, the end of a sector, an outage.
SETUP = {"granularity": "page-4", "sectors": 5, "size": 512, "age": 30, "max_inflight": 3}
STEPS = [["publish", 40, 2], ["publish", 20, 1], ["connect"], ["incoming", 2, 20], ["arrive"], *2 * [["receive"]]]
STEPS += [["publish", 60, 1], ["break"], ["poll"], ["connect"], ["publish", 90, 2], ["arrive"], *2 * [["receive"]]]
STEPS += [["publish", 60, 1]]
# A message without PUBREC while others fill the ring: its record has to be copied.
BEHIND = [["connect"], ["publish", 40, 2]]
BEHIND += 24 * [["publish", 60, 1], ["arrive"], ["receive", 1]]
# Sent and unsent messages when a session ends, or may have ended.
ENDED = [["connect"], ["publish", 40, 2], ["publish", 30, 1], ["arrive"], ["incoming", 2, 20], ["break"], ["poll"]]
ENDED += [["publish", 20, 2], ["restart", {"clean_session": True}], ["connect", 0, 0]]
ENDED += [["restart", {"clean_session": False}], ["connect", 0, 0], ["restart", {"clean_session": True}]]
ENDED += [["publish", 20, 1], ["connect"], ["incoming", 2, 20], ["restart", {"clean_session": False}]]

# Two links break before the oldest messages make progress; then each is sent alone, breaks the link, is set aside.
# One of them is discarded, and one in flight.
ASIDE = [["publish", 40, 2], ["publish", 20, 1], ["publish", 20, 1], ["publish", 30, 2], ["publish", 30, 2]]
ASIDE += [["connect", None, 0], ["poll"]]
ASIDE += [["break"], ["poll"], ["connect", None, 0], ["poll"]]
ASIDE += 4 * [["break"], ["poll"], ["connect", None, 0], ["poll"], ["arrive"], ["receive"], ["poll"]]
ASIDE += [["break"], ["poll"], ["connect", None, 0], ["discard", 0], ["poll"], ["discard", 2], ["publish", 20, 2]]


def _without_dup(monkeypatch):
    def again(self):
        for i in range(self.rows):
            self.states[i] = 3 if self.states[i] & 7 in (3, 4) else 0
        self.waiting = True

    monkeypatch.setattr(Session, "retransmit", again)


def _nothing_copied(monkeypatch):
    monkeypatch.setattr(Journal, "_empty", lambda self, sector, later: -1)


def _delivery_unrecorded(monkeypatch):
    acknowledge = Session.acknowledge_received

    def unrecorded(*args):
        with pytest.MonkeyPatch.context() as now:
            now.setattr(Journal, "mark", lambda self, at, state: None)
            acknowledge(*args)

    monkeypatch.setattr(Session, "acknowledge_received", unrecorded)


def _discarded_too_early(monkeypatch):
    connect = Session.connect

    def hasty(self, now, clean, *rest, **more):
        connect(self, now, clean, *rest, **more)
        if clean:
            self.discard_sent()

    monkeypatch.setattr(Session, "connect", hasty)


def _nothing_synced(monkeypatch):
    monkeypatch.setattr(Journal, "commit", lambda self: None)


# One for each kind of finding; `make mutants` asks the tests of the library for many more.
DEFECTS = {
    "DUP is forgotten": (_without_dup, STEPS, {OTHER}),
    "live records are not copied before an erase": (_nothing_copied, BEHIND, {LOST, OTHER}),
    "delivery to the application is not recorded": (_delivery_unrecorded, STEPS, {TWICE, OTHER}),
    "sent messages are discarded before their session ends": (_discarded_too_early, ENDED, {LOST, ORDER}),
    "packets are sent before the journal is synced": (_nothing_synced, STEPS, {LOST, TWICE, OTHER, REUSED}),
}


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect, monkeypatch):
    breaks, steps, kinds = DEFECTS[defect]
    breaks(monkeypatch)
    with pytest.raises(Counterexample) as found:
        Explorer(SETUP, steps, ways=4).explore()
    assert getattr(found.value.error, "kind", OTHER) in kinds


def test_nothing_is_found_without_a_defect():
    for steps in some((STEPS, BEHIND, ENDED, ASIDE), 2):
        explorer = Explorer(SETUP, steps, ways=2)
        explorer.explore()
        assert explorer.count["cuts"] > 100
        assert {"program", "erase", "mount", "work", "finish", "cut 2", "cut 3"} <= set(explorer.count)


@pytest.mark.parametrize("what", FAULTS)
def test_client_survives_a_flash_fault(what):
    for steps in some((STEPS, BEHIND, ENDED, ASIDE), 3):
        explorer = Explorer(SETUP, steps)
        explorer.explore([Focus([what], None, True, 0)])
        assert explorer.count["faults"] > 30


def test_bit_rot():
    """A bit flips while the power is off: at most one record is lost, and it is counted."""
    for n in some(range(12), 6):
        explorer = Explorer(SETUP, STEPS)
        explorer.explore([Focus(["rot", n * 7919], None, n % 2 == 0, 0)])
        assert explorer.count["rot"] > 30


def _undecided_bits_ignored(monkeypatch):
    monkeypatch.setattr(inflight.journal.sectors, "_READS", 1)
    monkeypatch.setattr(inflight.journal.sectors.SectorReader, "make_firm", lambda *_: True)


def _unverified(monkeypatch):
    monkeypatch.setattr("inflight.journal.pages.has_taken", lambda *of: True)


def _messages_forgotten(monkeypatch):
    monkeypatch.setattr("inflight.journal.checkpoint.Checkpoints.leave_out", lambda *of: None)


PLANTED = {
    "undecided": _undecided_bits_ignored,
    "stuck": _unverified,
    "checkpoints": _messages_forgotten,
    "three": _nothing_copied,
}


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.parametrize("campaign", PLANTED)
def test_campaign(campaign):
    search = Search(1, 200, scripts=2, each=25, campaign=campaign)
    assert search.run(), search.found
    assert search.count["cuts"] == 200
    assert bool(search.count["undecided"]) == (campaign in ("undecided", "checkpoints"))


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("campaign", ["undecided", "checkpoints", "three"])
def test_campaign_finds_a_defect(campaign, monkeypatch):
    PLANTED[campaign](monkeypatch)
    monkeypatch.setattr(machine, "shrunk", lambda *found: found)
    assert not Search(1, 20_000, campaign=campaign).run()


@pytest.mark.long("INFLIGHT_TOOLS")
def test_worn_bits_find_a_defect(monkeypatch):
    """A bit of each sector cannot be cleared any more: nothing is lost, if what was programmed is verified."""
    setups = [{**SETUP, "worn": [[512 * s + at, at // 20 % 8, 0] for s in range(5)]} for at in range(30, 330, 20)]
    for setup in setups:
        Explorer(setup, STEPS).explore(most=4)
    _unverified(monkeypatch)
    with pytest.raises(Counterexample):
        for setup in setups:
            Explorer(setup, STEPS).explore(most=20)


def test_a_worn_page_within_a_publish_that_reads_an_acknowledgement():
    """A bit that cannot be set makes publish() fail after it has handled a PUBACK: that may be durable or not."""
    setup = {**SETUP, "sectors": 8, "max_inflight": 6, "granularity": "page-256"}
    steps = [["connect"], *12 * [["publish", 103, 1]], ["connect"]]
    for at in range(217, 8 * 512, 512):
        for bit in (0, 3):
            Simulation({**setup, "worn": [[at, bit, 1]]}).play(steps)


def test_restart_with_other_settings():
    settings = {"max_inflight": 1, "receive_maximum": 1, "protocol_level": 3, "buffer": 128}
    simulation = Simulation(SETUP)
    simulation.play([["restart", settings]])
    assert simulation.peer.level == 3
    explorer = Explorer(
        SETUP, [*STEPS[:12], ["restart", settings, 1, 5], *STEPS[10:], ["restart", {"protocol_level": 4}]]
    )
    explorer.explore()
    assert explorer.count["cuts"] > 100


def test_topic_aliases():
    """[MQTT5-3.3.2-7] They are of one connection, and in no record: after a power cut the broker gets the topic."""
    setup = {**SETUP, "protocol_level": 5, "aliases": 2}
    simulation = Simulation(setup)
    simulation.play(STEPS[:13])
    assert simulation.peer.aliases == {1: "out/all"}
    explorer = Explorer(setup, [*STEPS, ["break"], ["poll"], ["restart", {"protocol_level": 4}], *STEPS[10:]])
    explorer.explore()
    assert explorer.count["cuts"] > 100


def test_the_script_sets_messages_aside():
    """And discards some of them."""
    simulation = Simulation(SETUP)
    for step in ASIDE:
        simulation.device or simulation.power_on()
        simulation.do(step)
    counted = simulation.device.counters()
    assert (counted["set_aside"], counted["dropped"]) == (2, 2), counted
    simulation.finish()


def test_random_scripts(record_property):
    cuts, each = (1000, 60) if THOROUGH else (80, 5)
    search = Search(1, cuts, scripts=4, each=each)
    assert search.run(), search.found
    record_property("cut points", search.count["cuts"])
    assert search.count["cuts"] == cuts
    assert set(GRANULARITIES) <= set(search.count)


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.timeout(1800)
def test_random_script_finds_a_defect_and_is_shrunk(monkeypatch):
    _without_dup(monkeypatch)
    search = Search(1, 10_000)
    assert not search.run()
    setup, steps, _ = search.found
    assert len(steps) <= 8, steps


@pytest.mark.parametrize("interrupted", [True, *more(False)])
def test_sectors_wear_evenly(interrupted):
    endurance = Endurance("page-64", 1, interrupted)
    assert endurance.run(40 if THOROUGH else 20) <= (0.2 if interrupted else 0.03)
    assert bool(endurance.cuts) == interrupted
