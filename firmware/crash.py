# What ended the last starts of a device: a file beside the configuration. It exists after a crash only, until the
# device has run well and told it. Loaded when there is something to write down, or to tell.

import json
import os

from codes import PANIC, WATCHDOG
from files import beside, kept_json
from inflight.compat import const
from inflight.journal.journal import OUT
from log import say
from telemetry import describe

_MOST = const(3)  # crashes in a row, then safe mode
_WELL_S = const(300)  # a start that lasted so long was no crash at the start
_SAFE_S = const(3_600)  # safe mode of a device that stays awake
_PAUSES_S = (0, 10, 60)  # after each crash in a row, beside the second that there always is
_LENGTH = const(150)  # characters of an error, at most
_SIZE = const(1_300)  # bytes of a health message, about
_FIELDS = ("count", "error", "at", "told")


def _read(board):
    try:
        record = kept_json(beside(board, "crash.json"), {})
        if isinstance(record["count"], int) and isinstance(record["error"], str):
            return {name: record.get(name) for name in _FIELDS}
    except (TypeError, KeyError):
        pass  # there is none, or a power cut damaged it
    except OSError as e:  # a device has to start nevertheless, and replaces it when it has told this
        return {"count": 0, "error": "crash.json: " + describe(e), "at": None, "told": False}
    return {"count": 0, "error": None, "at": None, "told": True}


def _write(board, record):
    # A device whose file system is full or fails has to start nevertheless.
    try:
        with open(beside(board, "crash.json"), "w") as f:
            f.write(json.dumps({name: record[name] for name in _FIELDS}))
    except OSError as e:
        say("crash.json: " + describe(e))


def last(board):
    """What ended the last starts, a dict: `count` of crashes in a row, `error`, `at`; `safe` if this start is to be in
    safe mode. A reset by watchdog or panic is a crash whose error nobody saw."""
    cause = board.reset_cause()
    record = note(board, cause) if cause in (WATCHDOG, PANIC) else _read(board)
    return safe(board, record) if record["count"] >= _MOST else record


def safe(board, record):
    """This start is in safe mode, and the next one as usual."""
    record["count"] = _MOST - 1
    _write(board, record)
    record["safe"] = True
    return record


def note(board, error, crashes=1, well=False):
    """Writes down an error, an exception or a text, of a start that ran `well`, or not. Returns the record."""
    record = _read(board)
    record["count"] = crashes + (0 if well else record["count"])
    record["told"] = False
    record["at"] = None
    if isinstance(error, BaseException):
        record["at"] = _frame(error)
        error = describe(error)
    record["error"] = error[:_LENGTH]
    _write(board, record)
    return record


def clear(board):
    """Removes what ended earlier starts. Returns the error, None if there was none."""
    error = _read(board)["error"]
    _reset(board, {"told": True})
    return error


def restart(app, reason):
    """Restarts the device without a farewell; health tells the reason."""
    say(reason)
    note(app.board, reason, 0)
    app.journal.commit()
    app.remember()
    app.board.sleep(0, True)


def _frame(error):
    # Where it was raised: file, line, function.
    try:
        from io import StringIO
        from sys import print_exception

        text = StringIO()
        print_exception(error, text)
        text = text.getvalue()
    except ImportError:
        text = "".join(__import__("traceback").format_exception(type(error), error, error.__traceback__))
    frames = [line.strip() for line in text.split("\n") if line.startswith("  File ")]
    return frames[-1][:_LENGTH] if frames else None


def crashed(board, error, config, ran_s):
    """Writes down the exception that ended a start after `ran_s` seconds, both None if it had no application, and
    pauses: the longer, the more crashes there were in a row."""
    if ran_s is None:
        board.remember(b"")  # nobody has measured how long this start took
    count = note(board, error, 1, (ran_s or 0) >= _WELL_S)["count"]
    for _ in range(_PAUSES_S[min(count, len(_PAUSES_S)) - 1]):
        if config and config.watchdog_ms:
            board.watchdog(config.watchdog_ms)
        board.sleep(1000)


def _reset(board, record):
    # What was not told yet, stays; it is not written again at each wake.
    if record["told"]:
        try:
            os.remove(beside(board, "crash.json"))
        except OSError:
            pass  # it could not be written
    elif record["count"]:
        record["count"] = 0
        _write(board, record)


def ended(app):
    """The application ended as it should."""
    if not app.crash.get("safe"):
        _reset(app.board, app.crash)


def report(app, fields, shorten):
    """Adds the error that ended an earlier start to the fields of a health message, once; ends safe mode after its
    time. shorten(fields) leaves out what is not needed, where the journal has short records."""
    record = app.crash
    longest = app.journal.largest
    if not record["told"] and app.journal.fits(OUT, min(_SIZE, longest)):
        if longest < _SIZE:  # slot files
            shorten(fields)
        fields["error"] = {"text": record["error"], "at": record["at"]}
        record["told"] = True
        _write(app.board, record)
    if record.get("safe"):
        app.stopping = app.stopping or app.uptime() >= _SAFE_S
    elif app.uptime() >= _WELL_S:
        _reset(app.board, record)
        app.crash = None
