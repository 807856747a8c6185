"""Announcements and chunks on a fake board: whatever comes, the device goes on, and unloads what it loaded."""

import json
import random
import sys

import pytest

from inflight_tools.update import keys
from inflight_tools.update.release import make as make_release
from update_record import IDLE, Record, load, store

KEY = "k" * 512  # no public key of anybody
MODULES = ("updating", "announcement", "slot", "update_record")


@pytest.fixture
def app(make, broker, until):
    app = make(broker.port, update_keys=[KEY])
    until(app, lambda: [m for m in broker.arrived if m.topic.endswith("/status")])
    return app


def random_bytes(n):
    return random.Random(n).randbytes(n)


SIGNATURE = bytes(384)
HOSTILE = [
    *(random_bytes(n) for n in (1, 383, 384, 385, 1000, 2048)),
    *(text.encode() + SIGNATURE for text in ("", "{", "5", "null", "[]", '"x"', "{}", '{"release": "x"}')),
    *(text.encode() + SIGNATURE for text in ('{"release": -1}', '{"release": 1e400}', '{"release": [[[[]]]]}')),
]


@pytest.mark.parametrize("payload", HOSTILE, ids=range(len(HOSTILE)))
def test_any_announcement_without_a_signature_is_refused_once(app, broker, published, until, payload):
    for _ in range(2):
        broker.give("inflight/dev/update/manifest", payload, 1)
    broker.give("inflight/dev/command/ping", b"", 2)
    until(app, lambda: published("reply/ping"))
    until(app, lambda: published("release") and app.update is None)
    (told,) = {body["seq"]: body for body in published("release")}.values()
    assert told["state"] == "refused" and told["reason"]
    assert not [name for name in MODULES if name in sys.modules]


@pytest.mark.parametrize(
    "topic, payload",
    [
        ("manifest", b""),
        ("manifest", bytes(2049)),
        ("chunk", b""),
        ("chunk", bytes(100)),
        ("chunk", bytes(3000)),
        ("x", b"y"),
    ],
)
def test_other_messages_change_nothing(app, broker, published, until, topic, payload):
    broker.give(f"inflight/dev/update/{topic}", payload, 1)
    broker.give("inflight/dev/command/ping", b"", 2)
    until(app, lambda: published("reply/ping"))
    until(app, lambda: app.update is None)
    assert not published("release")


class Piece:
    """The second piece of an announcement."""

    topic = "inflight/dev/update/manifest"
    payload = view = b"x"
    size, offset = 100, 99


def handler_of(client):
    return next(entry[2] for entry in client._handlers if entry[0].endswith(b"/update/+"))


def test_the_end_of_an_announcement_without_its_beginning_changes_nothing(app, published):
    handler_of(app.client)(Piece)
    app.step()
    assert app.update is None and not published("release")


def test_no_memory_for_an_update_ends_no_application(app, monkeypatch, published):
    def fails(app):
        raise MemoryError

    monkeypatch.setattr("updating.Update", fails)
    handler_of(app.client)(Piece)
    app.step()
    assert app.update is None and not published("release")


def test_a_device_without_keys_subscribes_to_no_updates(make, broker, published, until):
    app = make(broker.port)
    broker.give("inflight/dev/update/manifest", HOSTILE[0], 1)
    until(app, lambda: published("status"))
    filters = [name for session in broker.sessions.values() for name in session.subscriptions]
    assert filters and not [name for name in filters if "update" in str(name)]


def test_a_device_whose_launcher_does_not_run_tries_no_release_again(app, broker, published, until, tmp_path):
    record = Record()
    record.fetch(1, 300)
    record.begin_trial()  # the next start should have been that of the release
    store(str(tmp_path), record)
    broker.give("inflight/dev/update/manifest", b'{"release": 1}' + SIGNATURE, 1)
    until(app, lambda: published("release"))
    assert "main.py" in published("release")[0]["reason"]
    assert load(str(tmp_path)).state == IDLE


def test_a_release_for_another_interpreter_is_refused(make, broker, published, until, tmp_path):
    keys.generate(tmp_path / "key")
    key = keys.load(tmp_path / "key")
    app = make(broker.port, update_keys=[KEY.replace("k", "A"), keys.public(key)])
    release = make_release({"start.mpy": b"x"}, key, 1, "ram")
    broker.give("inflight/dev/update/manifest", release.announcement, 1)
    until(app, lambda: published("release"))
    told = published("release")[0]
    assert (told["release"], told["state"]) == (1, "refused") and "it is for MicroPython" in told["reason"]
    assert json.loads((tmp_path / "config.json").read_text())["update_keys"]
