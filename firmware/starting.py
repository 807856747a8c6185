# The start of a device that has been updated. Loaded by launch.

from update_record import TRIAL, load, store


def slot(folder):
    """Returns the name of the slot that starts, "" for the application that is in none. Counts starts of a trial."""
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
