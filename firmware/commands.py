# The commands that a device executes, on <root>/<device>/command/<name>. The reply goes to
# <root>/<device>/reply/<name>: {"ok": true, ...} or {"ok": false, "error": what to do}.


def _ping(app, payload):
    return {"echo": str(payload, "utf-8"), "up": app.uptime()}


def _interval(app, payload):
    from config import check_number  # a module that start has unloaded

    try:
        ms = int(payload)
    except ValueError:
        ms = None
    app.set_interval(check_number("interval_ms", ms))
    return {"interval_ms": ms}


def _reboot(app, payload):
    # Later, after this command was acknowledged: otherwise it would be delivered again after each restart.
    app.stopping = True
    return {}


_COMMANDS = {"ping": _ping, "interval": _interval, "reboot": _reboot}


def execute(app, name, message):
    """Executes the command `name`. Returns the fields of the reply, a dict."""
    try:
        if message.retain:
            raise ValueError("publish commands without retain: a retained one would be executed at each start")
        if name not in _COMMANDS:
            raise ValueError("unknown command: use " + ", ".join(sorted(_COMMANDS)))
        reply = _COMMANDS[name](app, message.payload)
        reply["ok"] = True
    except ValueError as e:
        reply = {"ok": False, "error": str(e)}
    if message.redelivered:
        reply["redelivered"] = True
    return reply
