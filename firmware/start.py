# Creates and starts the application. Booting and imports take most of a short wake: time is measured from before them.

import sys

from inflight.compat import const, passed, ticks_ms
from log import report

_BOOT_MS = const(10_000)


def main():
    """Runs the device. Returns when a user stops it, or when it cannot start for a reason that only a user can
    change."""
    began = ticks_ms()
    if not passed(began, 0, _BOOT_MS):
        began = 0  # a board's ticks begin with its start; else it was a soft reset, or is a process
    import board

    app = error = None
    ms = None  # how long the device sleeps; None if a person has to act first
    try:
        try:
            app = _assemble(board, began)
            if app:
                ms = app.run()  # from here: each function between takes stack from all that the application does
                _ended(app)
            elif board.ATTENDED:
                sys.exit(1)  # a process also exits with status 1; a board would restart
        except Exception as e:
            # An exception must neither stop the device nor empty its battery.
            error = e
        if error:
            ms = _end(board, app, error)
        if ms is not None:
            board.sleep(ms, True)
    except KeyboardInterrupt:  # also in the pause after a crash
        pass
    _leave_to_the_prompt(board)


def _leave_to_the_prompt(board):
    # Neither the watchdog nor a reset that a person asks for is a crash.
    while True:
        try:
            board.stop_watchdog()
            return
        except KeyboardInterrupt:
            pass  # tools send several


def _assemble(board, began):
    from assemble import assemble

    return assemble(board, began)


def _ended(app):
    # As it should.
    if app.crash:
        from crash import ended

        ended(app)
    _commit(app.journal)


def _commit(journal):
    # Otherwise acknowledged messages would be sent again after the sleep.
    try:
        journal.commit()
    except OSError as e:
        report(e)


def _end(board, app, error):
    # After a crash. Returns how long the device sleeps.
    report(error)
    board.sleep(1000)
    config = ran_s = None
    if app:
        config = app.config
        ran_s = app.uptime()
        _commit(app.journal)
        app.client = app.journal = None  # it may have been a MemoryError
    try:
        from crash import crashed

        crashed(board, error, config, ran_s)
        if config and not config.sleep_ms:
            app.remember()
    except Exception as e:
        report(e)
    return config.sleep_ms if config else 0
