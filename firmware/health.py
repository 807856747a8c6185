# The health message: the state of the device itself.

import gc


def report(app):
    """The fields of a health message, a dict. journal: pending messages, bytes in use and their limit, sector erases
    since it was formatted, damaged records and skipped sequence numbers since then, too: they only grow; `worn`, what
    these erases are in percent of the 100,000 that flash takes at least in each sector; where it is stored and what
    was repaired there, if the board reports that. outbox_full: messages refused by a full journal.
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
    if app.rules:
        fields["rules"] = app.rules.count
    if app.crash:
        import crash

        crash.report(app, fields)
    return fields
