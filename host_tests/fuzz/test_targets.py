"""Tests of the fuzzers' targets: the code passes, and injected defects are found."""

import random

import pytest

import inflight
import inflight.client.base
import inflight.client.handlers
import inflight.journal.sectors
import inflight.level5.mqtt5
import inflight.level5.receive5
import inflight.packet
import inflight.session.receive
import inflight.session.subscribe
import setup_http
import setup_serial
import setup_server
from inflight.journal.journal import Journal
from inflight.level5.cursor import Cursor
from inflight.level5.mqtt5 import Session5
from inflight.session.packet_buffer import PacketBuffer
from inflight.session.window import Window
from tools.fuzz import CORPUS, SHARES, corpus, grammar, target
from tools.fuzz.attempt import broken, minimized

SMOKE = {
    "decoder": 1500,
    "decoder5": 800,
    "topic": 3000,
    "session": 150,
    "session5": 150,
    "firmware": 400,
    "setup": 2000,
    "mount": 40,
    "calls": 150,
}


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
    assert [broken(target(name).run, rng.randbytes(rng.randrange(40))) for _ in range(60)] == [None] * 60


def test_outcomes_are_reproducible():
    for name, inputs in corpus.read().items():
        assert [target(name).run(data) for data in inputs[:10]] == [target(name).run(data) for data in inputs[:10]]


def test_corpus_is_small_and_of_all_targets():
    assert CORPUS.stat().st_size < 100_000
    assert set(corpus.read()) == set(SHARES)


# --- injected defects ---


def wrongly(function, change):
    """The function with a changed result."""

    def wrong(*args):
        return change(function(*args), *args)

    return wrong


DEFECTS = {
    "any text is valid": ("decoder", inflight.session.receive, "valid", lambda result, *_: True),
    "any Message ID is valid": ("decoder", PacketBuffer, "_id", None),
    "chunks lose a byte": ("decoder", PacketBuffer, "got", None),
    "a property may come twice": ("decoder5", Cursor, "_once", lambda result, *_: None),
    "properties are not checked": ("decoder5", Cursor, "check", lambda result, *_: result),
    "any reason code is one": ("decoder5", Session5, "_is_allowed", lambda result, *_: True),
    "topics of long messages are not skipped": (
        "decoder5",
        inflight.level5.receive5,
        "_head_end",
        lambda result, *_: -1,
    ),
    "a refused message is forgotten": ("session5", inflight.level5.mqtt5, "give_up", None),
    "everything matches": ("topic", inflight.client.handlers, "matches", lambda result, *_: True),
    "nothing matches": ("topic", inflight.client.handlers, "matches", lambda result, *_: False),
    "filters are not checked": ("topic", inflight.session.subscribe, "encode_filter", None),
    "a PUBREC completes": ("session", Window, "acknowledged", None),
    "a QoS 2 message is always new": ("session", inflight.session.receive, "received", lambda result, *_: 0),
    "marks are not durable": ("session", Journal, "mark", None),
    "every other record is damaged": ("mount", inflight.journal.sectors.SectorReader, "has_record", None),
    "no header is found": ("mount", inflight.journal.sectors, "_read_headers", None),
    "lengths of settings are not checked": ("setup", setup_serial, "wifi_settings", None),
    "any name is a name": ("setup", setup_server, "_question_end", lambda result, query: len(query)),
    "any length is one": ("setup", setup_http.Request, "_body_length", None),
    "any QoS is taken": ("calls", inflight.client.base.Base, "_check", None),
    "any payload is taken": ("calls", inflight.Client, "publish", None),
    "acceptance is not durable": ("calls", Journal, "append", None),
    "the end is not found": ("mount", inflight.journal.sectors.SectorReader, "last_byte", lambda result, *_: -1),
}


def _without_two(headers):
    headers.numbers[0] = headers.numbers[1] = inflight.journal.sectors.NEVER
    return headers


def breakage(what):
    name, where, attribute, change = DEFECTS[what]
    whole = vars(where)[attribute]
    special = {
        "any Message ID is valid": lambda d, i: d.buf[i] << 8 | d.buf[i + 1],
        "chunks lose a byte": lambda d, n: whole(d, n - (n > 3)),
        "a property may come twice": lambda cursor, kind: None,
        "properties are not checked": lambda cursor, i, end, where: cursor.start(i, end, where),
        "a refused message is forgotten": lambda window, address: whole(window, address) and window.remove(0) or 0,
        "filters are not checked": lambda text, limit=65535: text,
        "lengths of settings are not checked": lambda data: (str(data[1 : 1 + data[0]], "utf-8"), None),
        "any length is one": lambda request: int(request.headers.get("content-length", "0")),
        "any QoS is taken": lambda client, topic, qos, *_: whole(client, topic, 0, False, None),
        "any payload is taken": lambda client, topic, payload, *of: whole(client, topic, b"", *of),
        "acceptance is not durable": lambda j, *of: whole(j, *of) if j.live != 2 else 0,
        "a PUBREC completes": lambda o, kind, mid: whole(o, 4 if kind == 5 else kind, mid),
        "marks are not durable": lambda j, at, state: None if state == 2 else whole(j, at, state),
        "every other record is damaged": lambda w, at: at % 2 == 0 and whole(w, at),
        "no header is found": lambda j: _without_two(whole(j)),
    }
    return name, where, attribute, special.get(what) or wrongly(whole, change)


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.parametrize("what", DEFECTS)
def test_injected_defects_are_found(monkeypatch, what):
    name, where, attribute, wrong = breakage(what)
    module = target(name)
    monkeypatch.setattr(where, attribute, wrong)
    if hasattr(module, attribute):  # the module has imported it by name
        monkeypatch.setattr(module, attribute, wrong)
    found = tried(name, 3 * SMOKE[name])
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
