"""When a release that is tried is good, when it has failed, and what is published of it."""

import json
import os
import sys

import codes
import trials
from harness import SkipTest, eq

try:
    import socket  # noqa: F401
except ImportError:
    raise SkipTest("has no sockets") from None
from trial_app import App, Board
from update_record import BAD, GOOD, IDLE, TRIAL, Record, load, store

RUNTIMES = "cpython micropython-x86"
FOLDER = "inflight-test-%s" % "".join("%02x" % b for b in os.urandom(6))


class Device:
    """A folder with a record: a trial of release 4, in the slot b."""

    def __init__(self, before="[]", sleep_ms=0):
        self.before, self.sleep_ms = before, sleep_ms

    def __enter__(self):
        os.mkdir(FOLDER)
        self.record = record = Record()
        record.slot, record.release = 1, 3
        record.fetch(4, 300)
        record.begin_trial()
        record.start(False)
        store(FOLDER, record)
        with open(FOLDER + "/b.errors", "w") as f:
            f.write(self.before)
        return self

    def __exit__(self, *_):
        for name in ("b.errors", "b.reason", "update.0", "update.1", "crash.json"):
            try:
                os.remove(FOLDER + "/" + name)
            except OSError:
                pass
        os.rmdir(FOLDER)

    def start(self, slot="b", cause=codes.SOFT, full=False):
        """Starts the application in `slot`; full: its journal is. Returns it, and the Trial."""
        board = Board(FOLDER, cause)
        sys.path.insert(0, "%s/%s" % (FOLDER, slot))
        try:
            trial = trials.begin(board)
        finally:
            sys.path.pop(0)
        app = App(board, self.sleep_ms)
        app.journal.full = full
        if trial:
            trial.begin(app)
        return app, trial

    def states(self):
        record = load(FOLDER)
        return record.state, record.outcome, record.current, record.release, record.failed


STILL = (TRIAL, 0, "a", 3, 0)
KEPT = (IDLE, 0, "b", 4, 0)
FAILED = (IDLE, BAD, "a", 3, 4)
BACK = (IDLE, 0, "a", 3, 4)


def test_it_is_good_when_its_birth_is_acknowledged_and_its_time_has_passed():
    with Device() as device:
        app, _ = device.start()
        eq(app.config.watchdog_ms, 120_000)  # the launcher has started one: it has to be fed
        app.up = 400
        app.step()  # no connection
        app.connect()
        app.step()
        eq(device.states(), STILL)
        app.acknowledge()
        app.up = 299
        app.step()
        eq(device.states(), STILL)
        app.up = 300
        app.step()
        eq((device.states(), app.update), (KEPT, None))
        eq(app.told, [("release", {"release": 4, "state": "good"}, True)])
        eq(device.start()[1], None)


def test_a_sensor_that_broke_and_one_that_was_broken_before():
    with Device('["old"]') as device:
        app, _ = device.start()
        app.errors = {"old": "OSError: 5", "new": "OSError: 6"}
        app.connect()
        app.acknowledge()
        app.up = 899
        assert app.step()
        del app.errors["new"]  # it works again
        app.step()
        eq(device.states(), KEPT)
    with Device('["old"]') as device:
        app, _ = device.start()
        app.errors = {"old": "OSError: 5", "new": "OSError: 6"}
        app.connect()
        app.acknowledge()
        app.up = 900
        assert not app.step()
        eq(device.states(), FAILED)
        check_rollback(device, "new: OSError: 6")


def check_rollback(device, reason, cause=codes.SOFT):
    app, trial = device.start("a", cause)
    assert trial.failed and app.update is None
    eq(app.told, [("release", {"release": 4, "state": "bad", "reason": reason}, True)])
    eq(device.states(), BACK)
    eq(device.start("a")[1], None)
    eq(sorted(os.listdir(FOLDER)), ["b.errors", "b.reason", "update.0", "update.1"])  # no crash.json


def test_without_a_connection_it_fails():
    with Device() as device:
        app, _ = device.start()
        app.up = 899
        assert app.step()
        app.up = 900
        assert not app.step()
        check_rollback(device, "no connection")


def test_a_broker_that_does_not_acknowledge():
    with Device() as device:
        app, _ = device.start()
        app.connect()
        app.up = 900
        assert not app.step()
        check_rollback(device, "the broker has not acknowledged its messages")


def test_safe_mode_is_no_proof():
    with Device() as device:
        app, _ = device.start()
        app.crash = {"safe": True, "error": "MemoryError: "}
        app.connect()
        app.acknowledge()
        app.up = 500
        assert app.step()
        eq(device.states(), STILL)
        app.up = 900
        assert not app.step()
        check_rollback(device, "MemoryError: ")


def test_crashes_are_the_reason_and_belong_to_the_release():
    for cause, crashed, reason in (
        (codes.SOFT, "KeyError: a bug", "KeyError: a bug"),
        (codes.WATCHDOG, "KeyError: a bug", codes.WATCHDOG),
        (codes.PANIC, None, codes.PANIC),
        (codes.SOFT, None, "it did not prove itself in any start"),
    ):
        with Device() as device:
            if crashed:
                with open(FOLDER + "/crash.json", "w") as f:
                    f.write(json.dumps({"count": 3, "error": crashed, "at": None, "told": False}))
            device.record.bad()
            store(FOLDER, device.record)
            check_rollback(device, reason, cause)


def test_one_wake_decides_for_a_sensor_that_sleeps():
    for errors, states in (({}, KEPT), ({"new": "OSError: 6"}, FAILED)):
        with Device(sleep_ms=60_000) as device:
            app, _ = device.start()
            app.errors = errors
            assert app.step()  # not connected
            app.client.connected = True
            assert app.step()  # not delivered
            eq(device.states(), STILL)
            app.client.pending = 0
            eq(app.step(), not errors)
            eq(device.states(), states)


def test_a_good_release_is_told_after_a_power_cut_too():
    with Device() as device:
        device.record.good()
        store(FOLDER, device.record)
        app, _ = device.start()
        eq(app.told, [("release", {"release": 4, "state": "good"}, True)])
        eq((device.record.outcome, device.states()), (GOOD, KEPT))
        eq(device.start()[1], None)


def test_an_outcome_waits_while_the_journal_is_full():
    with Device() as device:
        app, _ = device.start()
        app.connect()
        app.acknowledge()
        app.up, app.journal.full = 300, True
        app.step()
        app.step()
        eq((app.told, device.states()), ([], (IDLE, GOOD, "b", 4, 0)))
        app, _ = device.start("b", full=True)  # a power cut
        app.step()
        app.journal.full = False
        app.step()
        eq((app.told, app.update), ([("release", {"release": 4, "state": "good"}, True)], None))
        eq(device.states(), KEPT)


def test_the_reason_of_a_failure_waits_too():
    with Device() as device:
        with open(FOLDER + "/crash.json", "w") as f:
            f.write(json.dumps({"count": 3, "error": "KeyError: a bug", "at": None, "told": False}))
        device.record.bad()
        store(FOLDER, device.record)
        for _ in range(2):
            app, _ = device.start("a", full=True)
            app.step()
            eq((app.told, device.states()), ([], FAILED))
        app.journal.full = False
        app.step()
        eq(app.told, [("release", {"release": 4, "state": "bad", "reason": "KeyError: a bug"}, True)])
        eq((app.update, device.states()), (None, BACK))


def test_an_announcement_that_comes_before_the_outcome_is_told_is_asked_for_again():
    with Device() as device:
        device.record.good()
        store(FOLDER, device.record)
        app, _ = device.start("b", full=True)
        app.update.received(None)
        eq(app.client.subscribed, [])
        app.journal.full = False
        app.step()
        eq(app.client.subscribed, ["inflight/box/update/+"])


def test_a_release_stays_in_its_trial_while_the_flash_is_full():
    with Device() as device:
        app, _ = device.start()
        app.connect()
        app.acknowledge()
        app.up = 300
        kept = trials.store

        def full(*_):
            raise OSError(28)

        trials.store = full
        try:
            assert app.step()
        finally:
            trials.store = kept
        eq((app.told, device.states()), ([], STILL))
        app.step()
        eq((app.told, device.states()), ([("release", {"release": 4, "state": "good"}, True)], KEPT))


def test_only_the_candidate_is_tried():
    with Device() as device:
        app, trial = device.start("a")  # the launcher could not count the start
        eq((trial, app.update, device.states()), (None, None, STILL))
