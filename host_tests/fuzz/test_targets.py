"""Tests of the fuzzers' targets: the code passes, and injected defects are found."""

import random

import pytest

import inflight
import inflight.client.base
import inflight.client.subscriptions
import inflight.journal.sectors
import inflight.level5.mqtt5
import inflight.level5.receive5
import inflight.packet
import inflight.session.packet_buffer
import inflight.session.subscribe
import setup_server
from inflight.journal.journal import Journal
from inflight.level5.mqtt5 import Session5
from inflight.session.receive import Receiving
from tools.fuzz import CORPUS, SHARES, corpus, grammar, target
from tools.fuzz.attempt import broken, minimized

SMOKE = {"decoder": 1500, "decoder5": 600, "topic": 3000, "firmware": 400, "setup": 2000, "mount": 40}
SMOKE |= dict.fromkeys(("session", "session5", "calls"), 70)


def tried(name, n, seed=1):
    """The first finding in n inputs: (what, input), None if there is none."""
    rng = random.Random(seed)
    run = target(name).run
    for _ in range(n):
        data = getattr(grammar, name)(rng)
        trouble = broken(run, data)
        if trouble:
            return trouble, data
    return None


@pytest.mark.parametrize("name", SHARES)
def test_smoke(name):
    assert tried(name, SMOKE[name]) is None


@pytest.mark.parametrize("name", SHARES)
def test_random_bytes(name):
    rng = random.Random(2)
    assert [broken(target(name).run, rng.randbytes(rng.randrange(40))) for _ in range(25)] == [None] * 25


def test_outcomes_are_reproducible():
    for name, inputs in corpus.read().items():
        assert [target(name).run(data) for data in inputs[:10]] == [target(name).run(data) for data in inputs[:10]]


def test_corpus_is_small_and_of_all_targets():
    assert CORPUS.stat().st_size < 100_000
    assert set(corpus.read()) == set(SHARES)


# One for each target, and in how many inputs; `make mutants` asks the tests of the library for many more.
DEFECTS = {
    "decoder": (inflight.session.packet_buffer, "valid", lambda text: True, 4500),
    "decoder5": (Session5, "_is_allowed", lambda *of: True, 2400),
    "topic": (inflight.client.subscriptions, "matches", lambda *of: True, 3000),
    "session": (Receiving, "take_qos_2", lambda session, mid: 0, 450),
    "setup": (setup_server, "_question_end", lambda query: len(query), 6000),
    "calls": (inflight.Client, "publish", None, 450),
    "mount": (inflight.journal.sectors.SectorReader, "last_byte", lambda *of: -1, 120),
}


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.parametrize("name", DEFECTS)
def test_an_injected_defect_is_found(monkeypatch, name):
    where, attribute, wrong, inputs = DEFECTS[name]
    whole = vars(where)[attribute]
    wrong = wrong or (lambda client, topic, payload, *of: whole(client, topic, b"", *of))
    module = target(name)
    monkeypatch.setattr(where, attribute, wrong)
    if hasattr(module, attribute):  # the module has imported it by name
        monkeypatch.setattr(module, attribute, wrong)
    found = tried(name, inputs)
    assert found, "not found"
    short = minimized(module.run, found[1], tries=300)
    assert len(short) <= len(found[1]) and broken(module.run, short)


@pytest.mark.long("INFLIGHT_TOOLS")
def test_endless_runs_are_found(monkeypatch):
    """An input must not run for ever, nor read for ever."""
    monkeypatch.setattr("tools.fuzz.attempt.LIMIT_S", 0.3)

    def endless(data):
        while True:
            pass

    assert "longer than" in broken(endless, b"")
    monkeypatch.setattr(Journal, "_behind", lambda j, at: at)
    assert tried("mount", 40)
