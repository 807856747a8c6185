"""When a release that is tried is good, when it has failed, and what is published of it."""

import json
import sys

import codes
import trials
from harness import eq
from scratch import Folder, Replaced
from trial_app import App, Board
from update_record import BAD, GOOD, IDLE, TRIAL, Record, load, store

RUNTIMES = "cpython micropython-x86"


class Device(Folder):
    """A folder with a record: a trial of release 4, in the slot b. `before`: the sensors that were broken then."""

    def __init__(self, before="[]", sleep_ms=0):
        self._before, self._sleep_ms = before, sleep_ms

    def __enter__(self):
        super().__enter__()
        self.record = record = Record()
        record.slot, record.release = 1, 3
        record.fetch(4, 300)
        record.begin_trial()
        record.start(False)
        store(self.path, record)
        self.write("b.errors", self._before)
        return self

    def start(self, slot="b", cause=codes.SOFT, full=False):
        """Starts the application in `slot`; full: its journal is. Returns it, and the Trial."""
        board = Board(self.path, cause)
        sys.path.insert(0, self.at(slot))
        try:
            trial = trials.begin(board)
        finally:
            sys.path.pop(0)
        app = App(board, self._sleep_ms)
        app.journal.full = full
        if trial:
            trial.begin(app)
        return app, trial

    def published(self, up=0, errors=None):
        """Starts it. Returns the application, whose birth message is acknowledged, and that has been up for so long."""
        app, _ = self.start()
        app.connect()
        app.acknowledge()
        app.up, app.errors = up, errors or {}
        return app

    def ended(self, how, crashed=None):
        """The trial has ended, as how(record) says it, by a crash with this error; this is to be told."""
        if crashed:
            self.write("crash.json", json.dumps({"count": 3, "error": crashed, "at": None, "told": False}))
        how(self.record)
        store(self.path, self.record)

    def states(self):
        record = load(self.path)
        return record.state, record.outcome, record.current, record.release, record.failed


STILL = (TRIAL, 0, "a", 3, 0)
KEPT = (IDLE, 0, "b", 4, 0)
FAILED = (IDLE, BAD, "a", 3, 4)
BACK = (IDLE, 0, "a", 3, 4)
GOOD_IS_TOLD = [("release", {"release": 4, "state": "good"}, True)]


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
        eq((device.states(), app.update, app.told), (KEPT, None, GOOD_IS_TOLD))
        eq(device.start()[1], None)


def check_rollback(device, reason, cause=codes.SOFT):
    app, trial = device.start("a", cause)
    assert trial.failed and app.update is None
    eq(app.told, [("release", {"release": 4, "state": "bad", "reason": reason}, True)])
    eq(device.states(), BACK)
    eq(device.start("a")[1], None)
    eq(device.names(), ["b.errors", "b.reason", "update.0", "update.1"])  # no crash.json


def test_a_sensor_that_broke_and_one_that_was_broken_before():
    for up, works_again in ((899, True), (900, False)):
        with Device('["old"]') as device:
            app = device.published(up, {"old": "OSError: 5", "new": "OSError: 6"})
            eq(app.step(), works_again)
            if works_again:
                del app.errors["new"]
                # Whoever sends commands can do that.
                app.errors.update({"reply": "900 bytes do not fit the journal", "mqtt client": "acknowledged and lost"})
                app.step()
                eq(device.states(), KEPT)
            else:
                check_rollback(device, "new: OSError: 6")


def test_a_restart_by_a_command_is_no_failed_start():
    with Device() as device:
        before = device.record.left, device.record.starts
        for _ in range(30):
            device.record.start(False)
            store(device.path, device.record)
            app, trial = device.start()
            app.stopping = True
            trial.close()
            device.record = load(device.path)
            eq((device.record.left, device.record.starts, device.states()), before + (STILL,))


def test_a_broker_that_does_not_acknowledge():
    """Or that is not there."""
    for connects, reason in ((False, "no connection"), (True, "the broker has not acknowledged its messages")):
        with Device() as device:
            app, _ = device.start()
            if connects:
                app.connect()
            app.up = 899
            assert app.step()
            app.up = 900
            assert not app.step()
            check_rollback(device, reason)


def test_safe_mode_is_no_proof():
    with Device() as device:
        app = device.published(500)
        app.crash = {"safe": True, "error": "MemoryError: "}
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
            device.ended(Record.bad, crashed)
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
        device.ended(Record.good)
        app, _ = device.start()
        eq((app.told, device.record.outcome, device.states()), (GOOD_IS_TOLD, GOOD, KEPT))
        eq(device.start()[1], None)


def test_an_outcome_waits_while_the_journal_is_full():
    """And the reason of a failure. An announcement that comes before that is asked for again."""
    with Device() as device:
        app = device.published(300)
        app.journal.full = True
        app.step()
        app.step()
        eq((app.told, device.states()), ([], (IDLE, GOOD, "b", 4, 0)))
        app, _ = device.start("b", full=True)  # a power cut
        app.step()
        app.update.received(None)
        eq(app.client.subscribed, [])
        app.journal.full = False
        app.step()
        eq((app.told, app.update, device.states()), (GOOD_IS_TOLD, None, KEPT))
        eq(app.client.subscribed, ["inflight/box/update/+"])
    with Device() as device:
        device.ended(Record.bad, "KeyError: a bug")
        for _ in range(2):
            app, _ = device.start("a", full=True)
            app.step()
            eq((app.told, device.states()), ([], FAILED))
        app.journal.full = False
        app.step()
        eq(app.told, [("release", {"release": 4, "state": "bad", "reason": "KeyError: a bug"}, True)])
        eq((app.update, device.states()), (None, BACK))


def full(*_):
    raise OSError(28)


def test_a_release_stays_in_its_trial_while_the_flash_is_full():
    with Device() as device:
        app = device.published(300)
        with Replaced(trials, store=full):
            assert app.step()
        eq((app.told, device.states()), ([], STILL))
        app.step()
        eq((app.told, device.states()), (GOOD_IS_TOLD, KEPT))


def test_only_the_candidate_is_tried():
    with Device() as device:
        app, trial = device.start("a")  # the launcher could not count the start
        eq((trial, app.update, device.states()), (None, None, STILL))
