"""The exploration explored: a client with a defect is found out, one without is not."""

import json

import pytest

import inflight.giving_up
import inflight.recovery
from dev.reference.oracle import LOST, ORDER, OTHER, REUSED, TWICE
from host_tests.crash import kept
from host_tests.crash.explorer import Explorer, Focus, Found
from host_tests.crash.machine import Search
from host_tests.crash.wear import Life
from host_tests.crash.world import STUMBLES, World
from host_tests.cutting import GRANULARITIES
from inflight import Journal
from inflight.inbound import Inbound
from inflight.outbound import Outbound
from inflight.pages import Pages
from inflight.session import Session

# Messages both ways, the end of a sector, an outage.
SETUP = {"granularity": "page-4", "sectors": 5, "size": 512, "age": 30, "max_inflight": 3}
STEPS = [
    ["publish", 40, 2],
    ["publish", 20, 1],
    ["connect"],
    ["give", 2, 20],
    ["up"],
    ["answer"],
    ["answer"],
    ["publish", 60, 1],
    ["drop"],
    ["look"],
    ["connect"],
    ["publish", 90, 2],
    ["up"],
    ["answer"],
    ["answer"],
    ["publish", 60, 1],
]
# A message whose PUBREC does not come, while others fill the ring: it has to be carried on.
BEHIND = [["connect"], ["publish", 40, 2]]
BEHIND += 24 * [["publish", 60, 1], ["up"], ["answer", 1]]
# Messages that left and others that did not, when a session ends or only might have.
ENDED = [
    ["connect"],
    ["publish", 40, 2],
    ["publish", 30, 1],
    ["up"],
    ["give", 2, 20],
    ["drop"],
    ["look"],
    ["publish", 20, 2],
    ["restart", {"clean_session": True}],
    ["connect", 0, 0],
    ["restart", {"clean_session": False}],
    ["connect", 0, 0],
    ["restart", {"clean_session": True}],
    ["publish", 20, 1],
    ["connect"],
    ["give", 2, 20],
    ["restart", {"clean_session": False}],
]


def _without_dup(monkeypatch):
    def again(self):
        for i in range(self.rows):
            self.states[i] = 3 if self.states[i] & 7 in (3, 4) else 0
        self.waiting = True

    monkeypatch.setattr(Outbound, "retransmit", again)


def _same_id(monkeypatch):
    monkeypatch.setattr(Outbound, "free_mid", lambda self, other: 7)


def _last_first(monkeypatch):
    def last(self):
        rows = [i for i in range(self.rows) if self.states[i] & 7 in (0, 3)]
        return rows[-1] if rows else -1

    monkeypatch.setattr(Outbound, "next", last)


def _nothing_copied(monkeypatch):
    monkeypatch.setattr(Journal, "_empty", lambda self, sector: None)


def _torn_counts(monkeypatch):
    def has_header(reader, at):
        return bool(reader.size_in_header(at)) and reader.buf[reader.load(at, 1)] in inflight.recovery._KINDS

    monkeypatch.setattr(inflight.recovery._SectorReader, "has_record", has_header)


def _release_unnoted(monkeypatch):
    mark = Journal.mark

    def done_only(self, at, state):
        if state == 2:
            mark(self, at, state)

    monkeypatch.setattr(Journal, "mark", done_only)


def _heard_unnoted(monkeypatch):
    monkeypatch.setattr(Inbound, "_mark", lambda self, i, mark: None)


def _release_sent_before_noted(monkeypatch):
    acked = Outbound.acknowledged

    def hasty(self, kind, mid):
        i = self._row(mid)
        if kind == 5 and i >= 0 and self.states[i] & 7 == 2:
            self.states[i] = 4
            return 2
        return acked(self, kind, mid)

    monkeypatch.setattr(Outbound, "acknowledged", hasty)


def _originals_stand(monkeypatch):
    monkeypatch.setattr(inflight.recovery, "_drop_original", lambda j, at: None)


def _erased_unretired(monkeypatch):
    clear = Journal._clear_bits
    monkeypatch.setattr(Journal, "_clear_bits", lambda j, at, data, n: clear(j, at, data, n) if n != 24 else None)


def _all_given_up(monkeypatch):
    def discard(self):
        while self.rows:
            self.finish(0)
        return 0

    monkeypatch.setattr(inflight.giving_up, "discard", discard)


def _nothing_given_up(monkeypatch):
    monkeypatch.setattr(inflight.giving_up, "discard", lambda window: 0)


def _given_up_too_early(monkeypatch):
    connect = Session.connect

    def hasty(self, now, clean, *rest, **more):
        connect(self, now, clean, *rest, **more)
        if clean:
            inflight.giving_up.discard(self.outbound)

    monkeypatch.setattr(Session, "connect", hasty)


def _nothing_synced(monkeypatch):
    monkeypatch.setattr(Journal, "commit", lambda self: None)


DEFECTS = {
    "DUP is forgotten": (_without_dup, {OTHER}),
    "an id is given twice": (_same_id, {REUSED}),
    "the last message goes first": (_last_first, {ORDER}),
    "live records are not carried on": (_nothing_copied, {LOST, OTHER}),
    "a torn record counts": (_torn_counts, {OTHER, TWICE}),
    "PUBREC is not noted": (_release_unnoted, {TWICE, OTHER}),
    "what the application had is not noted": (_heard_unnoted, {TWICE, OTHER}),
    "PUBREL leaves before PUBREC is noted": (_release_sent_before_noted, {TWICE}),
    "a copy and its original stand": (_originals_stand, {OTHER, TWICE, REUSED}),
    "a sector is erased that was not retired": (_erased_unretired, {OTHER, TWICE}),
    "what never left is given up with its session": (_all_given_up, {LOST}),
    "what left is sent in another session": (_nothing_given_up, {TWICE}),
    "what left is given up before its session ends": (_given_up_too_early, {LOST, ORDER}),
    "what leaves is not durable": (_nothing_synced, {LOST, TWICE, OTHER, REUSED}),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_is_found(defect, monkeypatch):
    breaks, kinds = DEFECTS[defect]
    breaks(monkeypatch)
    with pytest.raises(Found) as found:
        for steps in (STEPS, BEHIND, ENDED):
            Explorer(SETUP, steps, ways=4).explore()
    assert getattr(found.value.error, "kind", OTHER) in kinds


def test_nothing_is_found_without_a_defect():
    for steps in (STEPS, BEHIND, ENDED):
        explorer = Explorer(SETUP, steps, ways=2)
        explorer.explore()
        assert explorer.count["cuts"] > 100
        assert {"program", "erase", "mount", "work", "finish", "cut 2", "cut 3"} <= set(explorer.count)


@pytest.mark.parametrize("what", STUMBLES)
def test_the_device_lives_on(what):
    """An operation of the flash that fails, does nothing, cannot be read back, or is interrupted."""
    for steps in (STEPS, BEHIND, ENDED):
        explorer = Explorer(SETUP, steps)
        explorer.explore([Focus([what], None, True, 0)])
        assert explorer.count["faults"] > 30


def test_rot():
    """A bit flips while the power is off: one record is lost at most, and counted."""
    for n in range(12):
        explorer = Explorer(SETUP, STEPS)
        explorer.explore([Focus(["rot", n * 7919], None, n % 2 == 0, 0)])
        assert explorer.count["rot"] > 30


def test_a_program_that_is_ignored_is_seen(monkeypatch):
    monkeypatch.setattr(Pages, "_verify", lambda self, exact: None)
    with pytest.raises(Found):
        Explorer(SETUP, STEPS).explore([Focus(["ignored"], None, True, 0)])


def test_damage_that_is_not_counted_is_seen(monkeypatch):
    mount = inflight.recovery.mount

    def silent(j, *counts):
        mount(j, *counts)
        j.damaged = j.skipped = 0

    monkeypatch.setattr(inflight.recovery, "mount", silent)
    with pytest.raises(Found):
        for n in range(12):
            Explorer(SETUP, STEPS).explore([Focus(["rot", n * 7919], None, True, 0)])


def test_settings_that_change_between_lives():
    settings = {"max_inflight": 1, "receive_maximum": 1, "protocol_level": 3, "buffer": 128}
    world = World(SETUP)
    world.play([["restart", settings]])
    assert world.peer.level == 3
    explorer = Explorer(
        SETUP, [*STEPS[:12], ["restart", settings, 1, 5], *STEPS[10:], ["restart", {"protocol_level": 4}]]
    )
    explorer.explore()
    assert explorer.count["cuts"] > 100


def test_what_is_found_can_be_kept_and_played(monkeypatch):
    """A cut is found on a tape and played on flash that loses power in earnest."""
    _heard_unnoted(monkeypatch)
    with pytest.raises(Found) as found:
        Explorer(SETUP, STEPS).explore()
    script = json.loads(kept.text(SETUP, STEPS, found.value.cuts, str(found.value)))
    with pytest.raises(type(found.value.error)):
        kept.replay(script)
    monkeypatch.undo()
    kept.replay(script)


def test_scripts_of_chance(record_property):
    search = Search(1, 1000, scripts=4, each=60)
    assert search.run(), search.found
    record_property("cut points", search.count["cuts"])
    assert search.count["cuts"] == 1000
    assert set(GRANULARITIES) <= set(search.count)


def test_a_run_is_the_same_again():
    counts = []
    for _ in range(2):
        search = Search(3, 100, scripts=2, each=20)
        search.run()
        counts.append(search.count)
    assert counts[0] == counts[1]


@pytest.mark.timeout(300)
def test_a_script_of_chance_finds_a_defect_and_shrinks(monkeypatch):
    _without_dup(monkeypatch)
    search = Search(1, 10_000)
    assert not search.run()
    setup, steps, _ = search.found
    assert len(steps) <= 8, steps


@pytest.mark.parametrize("interrupted", [False, True])
def test_sectors_wear_evenly(interrupted):
    life = Life("page-64", 1, interrupted)
    assert life.live(40) <= (0.2 if interrupted else 0.03)
    assert bool(life.cuts) == interrupted


def test_uneven_wear_is_seen(monkeypatch):
    monkeypatch.setattr(Life, "_day", lambda self: self._world.flash.ioctl(6, 0))
    assert Life("page-4", 1, False).live(5) > 1
