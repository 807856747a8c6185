# Creates and starts the application. Booting and imports take most of a short wake: time is measured from before them.

import gc
import sys

from inflight.compat import const, passed, ticks_ms

_BOOT_MS = const(10_000)


def say(error):
    from telemetry import describe

    print("inflight:", describe(error))


def say_end(error):
    if error:
        say(error)


def _start_of_the_board():
    # A board's ticks begin with its start. Later, that was too long ago to be a boot: a soft reset, or a process.
    now = ticks_ms()
    return now if passed(now, 0, _BOOT_MS) else 0


def main():
    """Runs the device. Returns when a user stops it, or when it cannot start for a reason that only a user can
    change."""
    began = _start_of_the_board()
    import board

    app = error = None
    ms = 0
    try:
        app = _assemble(board, began)
        if not app:
            if board.NAME == "unix":
                sys.exit(1)  # a process also exits with status 1; a board would restart
            return
        ms = app.run()
        if app.crash:
            import crash

            crash.ended(app)
    except KeyboardInterrupt:
        return _leave_to_the_prompt(board)
    except Exception as e:
        # An exception must neither stop the device nor empty its battery.
        say(e)
        error = e
        board.sleep(1000)
    if app:
        _try_to_commit(app.journal)
    if error:
        ms = app.config.sleep_ms if app else 0
        watchdog_ms = app.config.watchdog_ms if app else 0
        ran_s = app.uptime() if app else 0
        app = None
        gc.collect()  # it may have been a MemoryError
        _write_down(board, error, watchdog_ms, ran_s)
    board.sleep(ms, True)


def _leave_to_the_prompt(board):
    while True:
        try:
            board.stop_watchdog()
            return
        except KeyboardInterrupt:
            pass  # tools send several


def _assemble(board, began):
    try:
        from assemble import assemble

        return assemble(board, began)
    finally:
        sys.modules.pop("assemble", None)
        gc.collect()


def _write_down(board, *what):
    try:
        import crash

        crash.crashed(board, *what)
    except Exception as e:
        say(e)


def _try_to_commit(journal):
    # Commits: otherwise acknowledged messages would be sent again after the sleep.
    try:
        journal.commit()
    except OSError as e:
        say(e)
