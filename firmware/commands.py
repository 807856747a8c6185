# The commands that a device executes, on <root>/<device>/command/<name>. The reply goes to
# <root>/<device>/reply/<name>: {"ok": true, ...} or {"ok": false, "error": what to do}. Loaded for each of them.
#
# A message of QoS 1 may come twice. A command with a number, on command/<name>@<number>, is executed once nevertheless:
# the numbers of the last commands that were executed are in a file. A number is written there before the reply is in
# the journal, so that each command is answered. If the power is cut between a command and its number, the command is
# executed again: that makes no difference to any but those of actuators, which write down their own, see actuators.

import log
from files import beside, kept, write
from inflight.compat import const
from log import ALL, INFO, LEVELS
from telemetry import describe

_NAME = const(64)  # characters of a command's name, at most
_NUMBERS = const(100)  # that are kept: no broker has more messages in flight to a device
_DIGITS = const(9)  # of a number in the file, with the space behind it
_HOUR_MS = const(3_600_000)
_ACTUATOR = "actuator/"


def _ping(app, payload):
    return {"echo": str(payload, "utf-8"), "up": app.uptime()}


def _interval(app, payload):
    from config import check_number

    try:
        ms = int(payload)
    except ValueError:
        ms = None
    app.set_interval(check_number("interval_ms", ms))
    from settings import keep

    keep(app, interval_ms=ms)
    return {"interval_ms": ms}


def _set(app, payload):
    from settings import change, told

    if not payload:
        return {"config": told(app)}
    change(app, payload)
    return _reboot(app, payload)


def _log(app, payload):
    level = str(payload, "utf-8")
    if level and level not in LEVELS:
        raise ValueError("use one of %s; nothing: the last lines" % ", ".join(LEVELS))
    if level:
        log.set_level(level)
    return {"level": LEVELS[log.level], "lines": _lines()}


def _lines():
    found = log.text.split("\n")[:-1]
    return found[1:] if len(log.text) == ALL else found  # the first may be half a line


def publish_log(app):
    """Publishes the lines that wait for it."""
    log.waiting = False
    app.report("log", {"lines": _lines()})
    log.text = ""


def _stay_awake(app, payload):
    try:
        ms = int(payload)
    except ValueError:
        ms = -1
    if not 0 <= ms <= _HOUR_MS:
        raise ValueError("write how long in ms, from 0 to %d" % _HOUR_MS)
    if not hasattr(app, "stay_awake"):
        raise ValueError("this device is always awake")
    app.stay_awake(ms)
    return {"ms": ms}


def _reboot(app, payload):
    # Later, after this command was acknowledged: otherwise it would be delivered again after each restart.
    app.stopping = True
    return {}


def _request(app, do):
    # Within a handler the client only publishes.
    if app.later:
        raise ValueError("another command like this one is under way: send this one again")

    def later():
        app.later = None
        try:
            do()
        except OSError as e:  # the flash fails
            log.report(e)

    app.later = later


def _retry(app, payload):
    _request(app, app.client.retry)
    return {}


def _discard(app, payload):
    client = app.client
    for mid, seq, _, _, _, state in client.pending_messages():
        if state == "set aside" and payload == b"%d" % mid:
            _request(app, lambda: client.discard(mid))
            return {"seq": seq}
    raise ValueError("no message with this id is set aside: health lists them")


_COMMANDS = {
    "ping": _ping,
    "interval": _interval,
    "set": _set,
    "log": _log,
    "stay-awake": _stay_awake,
    "retry": _retry,
    "discard": _discard,
    "reboot": _reboot,
}


class _Executed:
    # The numbers of the last commands that were executed. If they cannot be read, no such command is.

    def __init__(self, app):
        self._path = beside(app.board, "executed")
        self._text = kept(self._path)
        for number in app.actuators.numbers() if app.actuators else ():
            if number not in self:  # the power was cut behind it
                self.add(number)

    def __contains__(self, number):
        return "%08x " % number in self._text

    def add(self, number):
        self._text = (self._text + "%08x " % number)[-_NUMBERS * _DIGITS :]
        write(self._path, self._text)


def _number(text):
    number = int(text) if text.isdigit() else 0
    if not 0 < number <= 0xFFFFFFFF:
        raise ValueError("write a whole number from 1 to 4294967295 behind the @")
    return number


def _execute(app, name, message, number):
    if name.startswith(_ACTUATOR) and app.actuators:
        return app.actuators.execute(name[len(_ACTUATOR) :], message, number)
    if name not in _COMMANDS:
        raise ValueError("unknown command: use " + ", ".join(sorted(_COMMANDS)))
    return _COMMANDS[name](app, message.payload)


def _execute_once(app, name, message, text):
    number = _number(text)
    executed = _Executed(app)
    if number in executed:
        reply = {"repeated": True}
    else:
        reply = _execute(app, name, message, number)
        executed.add(number)
    reply["number"] = number
    return reply


def answer(app, name, message):
    """Executes the command `name`, which may have a number, and publishes the reply."""
    name, _, number = name.partition("@")
    log.say("command " + name, INFO)
    reply = execute(app, name, message, number)
    # Limits the length of names, which appear in topics and in `errors`.
    app.report("reply/" + (name if 0 < len(name) <= _NAME else "?"), reply)


def execute(app, name, message, number=""):
    """Executes the command `name`, once if it has a number, a text. Returns the fields of the reply, a dict."""
    try:
        if message.retain:
            raise ValueError("publish commands without retain: a retained one would be executed at each start")
        if number:
            reply = _execute_once(app, name, message, number)
        else:
            reply = _execute(app, name, message, 0)
        reply["ok"] = True
    except ValueError as e:
        reply = {"ok": False, "error": str(e)}
    except OSError as e:  # flash that is full or fails
        reply = {"ok": False, "error": describe(e)}
    if message.redelivered:
        reply["redelivered"] = True
    return reply
