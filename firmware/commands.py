# The commands that a device executes, on <root>/<device>/command/<name>. The reply goes to
# <root>/<device>/reply/<name>: {"ok": true, ...} or {"ok": false, "error": what to do}. Loaded for each of them.

import sys

import log
from inflight.compat import const
from log import ALL, LEVELS
from telemetry import describe

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
    from settings import change

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
    sys.modules.pop("commands", None)


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


_COMMANDS = {
    "ping": _ping,
    "interval": _interval,
    "set": _set,
    "log": _log,
    "stay-awake": _stay_awake,
    "reboot": _reboot,
}


def _execute(app, name, message):
    if name.startswith(_ACTUATOR) and app.actuators:
        return app.actuators.execute(name[len(_ACTUATOR) :], message)
    if name not in _COMMANDS:
        raise ValueError("unknown command: use " + ", ".join(sorted(_COMMANDS)))
    return _COMMANDS[name](app, message.payload)


def execute(app, name, message):
    """Executes the command `name`. Returns the fields of the reply, a dict."""
    try:
        if message.retain:
            raise ValueError("publish commands without retain: a retained one would be executed at each start")
        reply = _execute(app, name, message)
        reply["ok"] = True
    except ValueError as e:
        reply = {"ok": False, "error": str(e)}
    except OSError as e:  # flash that is full or fails
        reply = {"ok": False, "error": describe(e)}
    for used in ("config", "network_fields", "settings", "commands"):
        sys.modules.pop(used, None)
    if message.redelivered:
        reply["redelivered"] = True
    return reply
