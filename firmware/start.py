# Starts the application: wiring only. What is imported takes most of a short wake, so the clock runs
# before that.

import sys

from inflight.compat import ticks_ms


def _say(error):
    from telemetry import describe

    print("inflight:", describe(error))


def _say_end(error):
    if error:
        _say(error)


def build(began):
    """Returns the application of this board, ready to run, which the device began to start at
    ticks_ms() `began`. Raises ValueError with what to change, OSError if the flash fails."""
    import board
    from config import load
    from inflight import Client, Journal
    from node import will

    config = load(board.config_path(), board.device_id)  # to ask may switch the radio on
    tls = None
    if config.tls_ca:
        from secure import context

        tls = context(config.tls_ca, config.tls_cert, config.tls_key)
    if config.sleep_ms:
        from sleeping_app import SleepingApp as Application
    else:
        from app import App as Application
    del sys.modules["config"]  # 5 KB of heap that nobody needs any more
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
    # Returns None if it cannot start, and says why in one line.
    try:
        return build(began)
    except ValueError as e:
        print("inflight:", e)
    except OSError as e:
        _say(e)


def main():
    """Runs the device. Returns when somebody stops it, or when it cannot start: what is wrong then
    stays wrong until somebody changes it, so starting again would not help."""
    began = ticks_ms()
    import board

    app = _try_to_build(began)
    if not app:
        if board.NAME == "unix":
            sys.exit(1)  # a process says it by its status as well; a board would start again
        return
    try:
        ms = app.run()
    except KeyboardInterrupt:
        return
    except Exception as e:
        # A bug must not end a device's life, nor empty its battery.
        _say(e)
        board.sleep(1000)
        ms = app.config.sleep_ms
    _try_to_commit(app.journal)
    board.sleep(ms, True)


def _try_to_commit(journal):
    # What the broker has acknowledged would be sent again after the sleep.
    try:
        journal.commit()
    except OSError as e:
        _say(e)
