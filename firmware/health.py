# How the device itself is doing.

import gc


def report(app):
    """The fields of a health message, a dict. journal: messages that wait, bytes in use and how
    many may be, erases of all sectors since it was formatted, what its mount found spoilt and how many numbers it
    passed over for that; where it
    lives and what had to be repaired there, if the board tells.
    outbox_full: messages the journal had no space for. counters: of the client, since the start; a
    device's connections after its first are its reconnects, `resent` its resends. heap: free bytes,
    null where there is no bound."""
    gc.collect()
    journal = app.journal
    kept = {
        "live": journal.live,
        "used": journal.used,
        "limit": journal.limit,
        "erases": journal.erases,
        "damaged": journal.damaged,
        "skipped": journal.skipped,
    }
    for name in ("where", "repaired"):
        value = getattr(app.flash, name, None)
        if value is not None:
            kept[name] = value
    return {
        "firmware": app.version,
        "up": app.uptime(),
        "heap": gc.mem_free() if hasattr(gc, "mem_free") else None,
        "journal": kept,
        "outbox_full": app.full,
        "rssi": app.board.rssi(),
        "wifi": app.board.wifi_status(),
        "reset": app.board.reset_cause(),
        "errors": app.errors,
        "counters": app.client.counters(),
    }
