# The start of a device that has been updated. Loaded by launch.

from update_record import BAD, load, store


def slot(folder):
    """Returns the name of the slot that starts, "" for the application that is in none. Counts starts of a trial, and
    restarts with the firmware that is tried if it is not the one that runs."""
    record = load(folder)
    if not record.is_tried:
        return record.current
    trial = __import__("trial")  # firmware is for boards whose module has functions for it
    if record.firmware and trial.firmware() == record.firmware:
        trial.watchdog()  # this start was counted when the firmware before it chose it
        return record.current
    name = record.start(trial.was_cut(folder))
    try:
        store(folder, record)  # first: whatever the candidate does, this start is counted
        if record.outcome == BAD:
            return name
        if record.firmware:
            _start_firmware(folder, record, trial)
            return record.current
    except OSError:
        return record.current
    trial.watchdog()
    return name


def _start_firmware(folder, record, trial):
    try:
        trial.start_firmware(record.firmware)  # does not return
    except OSError:  # the bootloader would not start it
        record.bad()
        store(folder, record)
