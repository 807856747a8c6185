# Chooses the application that starts: that of a slot goes before all others on the search path. No update replaces
# this module, update_record and trial; they import nothing of the application.

import os
import sys


def _folder():
    # The folder of records and slots; None on a Linux box that was not told one.
    return os.getenv("INFLIGHT_HOME") if hasattr(os, "getenv") else ""


def choose():
    """Puts the slot that is to start on the search path. Everything of this is unloaded: a slot has modules of the same
    names."""
    folder = _folder()
    try:
        if folder is not None:
            os.stat(folder + "/update.0")
            name = _slot(folder)
            if name:
                sys.path.insert(0, "%s/%s" % (folder, name))
    except OSError:
        pass  # never updated
    for name in ("launch", "trial", "update_record"):
        sys.modules.pop(name, None)


def _slot(folder):
    from update_record import TRIAL, load, store

    record = load(folder)
    if record.state != TRIAL:
        return record.current
    import trial

    name = record.start(trial.was_cut(folder))
    try:
        store(folder, record)  # first: whatever the candidate does, this start is counted
    except OSError:
        return record.current
    if record.state == TRIAL:
        trial.watchdog()
    return name
