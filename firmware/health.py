# The health message: the state of the device itself.

import gc

from inflight.compat import const

_MOST = const(3)  # messages that were set aside, in a health message


def _set_aside(app):
    # What the broker does not take, as far as health tells it.
    client = app.client
    found = []
    for mid, seq, topic, size, _, state in client.pending_messages():
        if state == "waiting" or len(found) == _MOST:
            break  # all behind it wait
        if state == "set aside":
            why = "too long" if size > client.session.maximum_out else "ended connections"
            topic = topic[len(app.config.root) + len(app.config.device) + 2 :]
            found.append({"id": mid, "seq": seq, "topic": topic, "size": size, "why": why})
    return found


def report(app):
    """The fields of a health message, a dict. journal: pending messages, bytes in use and their limit, sector erases
    since it was formatted, damaged records and skipped sequence numbers since then, too: they only grow; `worn`, what
    these erases are in percent of the 100,000 that flash takes at least in each sector; where it is stored and what
    was repaired there, if the board reports that. outbox_full: messages refused by a full journal.
    aside: the oldest messages that the client has set aside, once there was one.
    counters: of the client, since the start; a device's connections after its first are its reconnects, `resent` its
    resends. heap: free bytes, null if unlimited."""
    gc.collect()
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
    for name in ("where", "repaired"):
        value = getattr(app.flash, name, None)
        if value is not None:
            kept[name] = value
    fields = {
        "firmware": app.version,
        "up": app.uptime(),
        "heap": gc.mem_free() if hasattr(gc, "mem_free") else None,
        "journal": kept,
        "outbox_full": app.full,
        "rssi": app.network.rssi(),
        "wifi": app.network.status(),
        "reset": app.board.reset_cause(),
        "errors": app.errors,
        "counters": app.client.counters(),
    }
    if fields["counters"]["set_aside"]:
        fields["aside"] = _set_aside(app)
    if app.crash:
        import crash

        crash.report(app, fields)
    return fields
