# A release proves itself, or what is published of one that did not. Loaded by a start that belongs to a trial, or
# follows one.

import sys

from codes import PANIC, WATCHDOG
from files import beside, kept, kept_json, write
from inflight.compat import const
from release_state import told
from update_record import BAD, TRIAL, load, store
from updates import listen

sys.modules.pop("update_record")  # the launcher's: the build gives nothing of that back
_LIMIT = const(3)  # a device that stays awake has so many times the time of the trial
_WATCHDOG_MS = const(120_000)
_NOTHING = "it did not prove itself in any start"


def begin(board):
    """The Trial that this start belongs to, or whose outcome it has to publish; None without one."""
    folder = beside(board, "")[:-1]
    record = load(folder)
    if record.firmware:
        here = record.firmware == __import__("trial").firmware()
    else:
        here = sys.path[0] == "%s/%s" % (folder, record.other)
    runs = record.state == TRIAL and here
    return Trial(board, folder, record, runs) if runs or record.outcome else None


class Trial:
    """Of the candidate of `record`, which stands in `folder`; `runs`: this start is the candidate's."""

    busy = False

    def __init__(self, board, folder, record, runs):
        self._folder, self._record, self.runs = folder, record, runs
        self._birth = None
        self._acknowledged = self._announced = False
        self.failed = record.outcome == BAD
        if self.failed:
            self._reason = self._why(board)

    def _why(self, board):
        # The crashes were those of the candidate: they are told here, and do not count any more. What is told stays
        # with the candidate, since it may be told once more.
        path = "%s/%s.reason" % (self._folder, self._record.other)
        try:
            reason = kept(path)
            if reason:
                return reason
        except OSError:
            pass  # the device has to start nevertheless
        from crash import clear

        error = clear(board)
        cause = board.reset_cause()
        reason = cause if cause in (WATCHDOG, PANIC) else error or _NOTHING
        try:
            write(path, reason)
        except OSError:
            pass  # the flash is full
        return reason

    def begin(self, app):
        """The application was built."""
        self._app = app
        if not self.runs:
            self._tell()
            return
        app.update = self
        app.config.watchdog_ms = app.config.watchdog_ms or _WATCHDOG_MS  # launch has started it
        self._watch_birth(app)
        self._before = kept_json("%s/%s.errors" % (self._folder, self._record.other), ())

    def _watch_birth(self, app):
        # Notes the Message ID of the status online.
        publish = app._publish_status

        def publish_status(state, **more):
            mid = publish(state, **more)
            if state == "online":
                self._birth = mid

        app._publish_status = publish_status

    def received(self, message):
        """Announcements wait until the trial has ended: they are retained."""
        self._announced = True

    def close(self):
        """A start that a command ends does not count: whoever may send commands decides about no release."""
        record = self._record
        if self._app.stopping and record.state == TRIAL:
            record.left += 1
            record.starts -= 1
            try:
                store(self._folder, record)
            except OSError:
                pass  # the flash is full: it counts

    def step(self):
        """Looks whether the release has proved itself; tells what became of it."""
        app = self._app
        if self._record.outcome:
            self._tell()
            return
        pending = app.client.is_pending(self._birth) if self._birth else app.client.pending
        self._acknowledged = app.client.connected and (self._acknowledged or not pending)
        # What senders choose, replies and what the client says of their messages, does not count.
        broken = [name for name in app.errors if name not in self._before and name not in ("reply", "mqtt client")]
        sleeps = app.config.sleep_ms > 0
        proved = self._acknowledged and not broken and not (app.crash and "safe" in app.crash)
        if proved and (sleeps or app.uptime() >= self._record.good_s):
            self._succeed()
        elif (sleeps and self._acknowledged) or app.uptime() >= _LIMIT * max(self._record.good_s, 1):
            self._fail(broken)

    def _succeed(self):
        self._record.good()
        try:
            store(self._folder, self._record)
        except OSError:
            self._record = load(self._folder)  # the flash is full: the next step tries it again
            return
        self._tell()

    def _fail(self, broken):
        app = self._app
        if broken:
            reason = "%s: %s" % (broken[0], app.errors[broken[0]])
        elif app.crash and "safe" in app.crash:
            reason = app.crash["error"]
        else:
            reason = "the broker has not acknowledged its messages" if app.client.connected else "no connection"
        self._record.bad()
        store(self._folder, self._record)
        from crash import restart

        restart(app, reason)

    def _tell(self):
        # Once more with each step while the journal is full: until then the record keeps the outcome.
        app = self._app
        record = self._record
        state = ("bad", self._reason) if self.failed else ("good",)
        if record.firmware and not self.failed:
            __import__("trial").keep_firmware()  # else the bootloader goes back to the one before
        if not told(app, record.candidate, *state):
            app.update = self
            return
        record.outcome = 0
        try:
            store(self._folder, record)
        except OSError:
            pass  # the next start tells it once more
        app.update = None
        if self._announced:
            try:
                listen(app)  # the broker sends the announcement once more
            except OSError:
                pass  # the next connection subscribes
