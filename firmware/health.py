# The health message: the state of the device itself.

from inflight.compat import const
from telemetry import describe

_MOST = const(3)  # messages that were set aside, in a health message


def _errors(app):
    # With the messages that the broker does not take. What the client reported is told once, unless it lasts.
    found = dict(app.errors)
    if "refused" not in found.get("mqtt client", ""):
        app.errors.pop("mqtt client", None)
    client = app.client
    if not client.counters()["set_aside"]:
        return found
    most = len(found) + _MOST
    try:
        for mid, seq, topic, size, _, state in client.pending_messages():
            if state == "waiting" or len(found) == most:
                break  # all behind it wait
            if state == "set aside":
                why = "too long" if size > client.session.maximum_out else "it ended connections"
                topic = topic[len(app.config.root) + len(app.config.device) + 2 :]
                found["message %d" % mid] = "set aside: %s, number %d, %d bytes to %s" % (why, seq, size, topic)
    except OSError as e:  # the flash fails
        found["journal"] = describe(e)
    return found


def report(app):
    """The fields of a health message, a dict. journal: pending messages, bytes in use and their limit, sector erases
    since it was formatted, damaged records and skipped sequence numbers since then, too: they only grow; `worn`, what
    these erases are in percent of the 100,000 that flash takes at least in each sector; where it is stored and what was
    repaired there, if the board reports that. outbox_full: messages refused by a full journal. Among the counters
    `thinned`: readings that a full journal gave up since it was formatted. errors: by the name of a sensor, or of a
    message that is set aside. counters: of the client, since the start; a device's connections after its first are its
    reconnects, `resent` its resends. heap: free bytes, null if unlimited; heap_least: the fewest that a health
    message told since the start. Without a connection it is short, since it takes space in the journal: counters that
    are 0 are left out, and the network, and where the journal is."""
    journal = app.journal
    kept = {
        "live": journal.live,
        "used": journal.used,
        "limit": journal.limit,
        "erases": journal.erases,
        "damaged": journal.damaged,
        "skipped": journal.skipped,
        "worn": journal.erases // (1000 * app.flash.ioctl(4, 0)),
    }
    fields = {
        "firmware": app.version,
        "up": app.uptime(),
        "heap": app.heap,
        "heap_least": app.heap_least,
        "journal": kept,
        "outbox_full": app.full,
        "reset": app.board.reset_cause(),
        "errors": _errors(app),
        "counters": app.client.counters(),
    }
    if app.rules:
        fields["rules"] = app.rules.count
    if app.config.thins:
        from thin import load

        try:
            fields["counters"]["thinned"] = load(app)[1]
        except OSError as e:
            fields["errors"]["thinned"] = describe(e)
    if app.client.connected:
        fields["rssi"] = app.network.rssi()
        fields["wifi"] = app.network.status()
        for name in ("where", "repaired"):
            value = getattr(app.flash, name, None)
            if value is not None:
                kept[name] = value
    else:
        _shorten(fields)
    if app.crash:
        from crash import report as report_crash

        report_crash(app, fields, _shorten)
    return fields


def _shorten(fields):
    # Leaves out counters that are 0.
    counters = fields["counters"]
    fields["counters"] = {name: counters[name] for name in counters if counters[name] or name == "accepted"}
