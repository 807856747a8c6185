# Creates and starts the application. Booting and imports take most of a short wake: time is measured from before them.

import sys

from inflight.compat import const, ticks_ms

_BOOT_MS = const(10_000)


def _say(error):
    from telemetry import describe

    print("inflight:", describe(error))


def _say_end(error):
    if error:
        _say(error)


def build(began):
    """Returns the application of this board, ready to run; the device started at ticks_ms() `began`. Raises ValueError
    with the necessary change, OSError if the flash fails."""
    import board
    from config import load
    from inflight import Client, Journal
    from node import will

    config = load(board.config_path(), board.device_id)  # device_id() may switch the radio on
    tls = None
    if config.tls_ca:
        from secure import context

        tls = context(config.tls_ca, config.tls_cert, config.tls_key)
    if config.sleep_ms:
        from sleeping_app import SleepingApp as Application
    else:
        from app import App as Application
    del sys.modules["config"]  # frees 5 KB of heap
    flash = board.journal_flash()
    journal = Journal(flash)
    client = Client(
        config.host,
        config.device,
        journal,
        port=config.port,
        tls=tls,
        user=config.user,
        password=config.password,
        will=will(config),
        keepalive=config.keepalive,
        protocol_level=config.protocol_level,
        buffer=bytearray(config.buffer),
        max_inflight=config.max_inflight,
        when_full=config.when_full,
        timeout_ms=Application.timeout(config),
        reconnect=Application.RECONNECT,
        on_disconnect=_say_end,
        on_error=_say,
    )
    return Application(board, config, journal, client, flash, began=began)


def _try_to_build(began):
    # Returns None if it cannot start, and prints the reason in one line.
    try:
        return build(began)
    except ValueError as e:
        print("inflight:", e)
    except OSError as e:
        _say(e)


def _start_of_the_board():
    # A board's ticks begin with its start. Later, that was too long ago to be a boot: a soft reset, or a process.
    now = ticks_ms()
    return now if now > _BOOT_MS else 0


def main():
    """Runs the device. Returns when a user stops it, or when it cannot start for a reason that only a user can
    change."""
    began = _start_of_the_board()
    import board

    app = _try_to_build(began)
    if not app:
        if board.NAME == "unix":
            sys.exit(1)  # a process also exits with status 1; a board would restart
        return
    try:
        ms = app.run()
    except KeyboardInterrupt:
        return
    except Exception as e:
        # An exception must neither stop the device nor empty its battery.
        _say(e)
        board.sleep(1000)
        ms = app.config.sleep_ms
    _try_to_commit(app.journal)
    board.sleep(ms, True)


def _try_to_commit(journal):
    # Commits: otherwise acknowledged messages would be sent again after the sleep.
    try:
        journal.commit()
    except OSError as e:
        _say(e)
