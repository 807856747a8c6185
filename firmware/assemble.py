# Builds the application of a board from its configuration. Runs once.

from files import beside, exists
from log import say

_ENOSPC = 28  # MicroPython's errno has no name for it


def set_up(board):
    # Waits for a person, and restarts the device. Returns at once if it has a configuration, even one that cannot be
    # read, and if it cannot be set up: a process, a release.
    if exists(board.config_path()):
        return
    try:
        import setup_board
    except ImportError:
        return
    if setup_board.available():
        from setup import run

        run(board, setup_board)


def set_up_by_cable(board):
    # The same where a configuration has nothing but how the device reaches its network.
    import json

    from config import check

    try:
        with open(board.config_path()) as f:
            given = json.loads(f.read())
        if not given["network"] or "host" in given:
            return
        check(dict(given, host="-"), board.device_id)
    except (OSError, ValueError, TypeError, KeyError):
        return
    from setup import run
    from setup_wired import Wired

    run(board, Wired(board, given))


def _tried(board, record):
    # The file of a configuration that this start tries, if any; and what ended the starts before, `record` if no
    # configuration is given up.
    path = board.config_path()
    if not (exists(path + ".new") or exists(path + ".try")):
        return None, record
    from settings import begin

    return begin(board, record)


def _last_crash(board):
    # What ended the starts before this one; None if nothing did.
    from codes import PANIC, WATCHDOG

    if board.reset_cause() not in (WATCHDOG, PANIC) and not exists(beside(board, "crash.json")):
        return None
    from crash import last

    return last(board)


def assemble(board, began):
    """Returns the application of this board, ready to run; the device started at ticks_ms() `began`. It is in safe
    mode (see safe) after several crashes in a row, and if its configuration has an error. Returns None if a person has
    to act first, and prints what to do."""
    set_up(board)
    trial = None  # of a release, if this start is part of one or follows one
    if exists(beside(board, "update.0")):
        from trials import begin

        trial = begin(board)
    path, record = _tried(board, None if trial and trial.failed else _last_crash(board))
    app = _assemble(board, began, record, path, trial and trial.runs)
    if trial and trial.runs and not app:
        # At the prompt, without a watchdog, it would stay for ever.
        raise RuntimeError("the release does not start with this configuration")
    if app and trial:
        trial.begin(app)
    return app


def _assemble(board, began, record, path, trial):
    try:
        if not (record and "safe" in record):
            return build(board, began, record, path=path, trial=trial)
    except ValueError as e:  # it would come again with each start, unless it is that of settings that are tried
        say(str(e))
        if path:
            from settings import give_up

            give_up(board, e)
            board.sleep(0, True)
        set_up_by_cable(board)
        if board.ATTENDED:
            return None
        from crash import note, safe

        record = safe(board, note(board, e))
    try:
        from safe import limit

        return build(board, began, record, limit, trial=trial)
    except ValueError as e:
        say(str(e))
        return None


def _configuration(board, path, limit):
    # Gives the modules that check it back before the journal is mounted.
    from config import load

    return load(path or board.config_path(), board.device_id, limit)  # device_id() may switch the radio on


def _journal_flash(board, kb):
    # One of the board's own size, if none is configured; where other files take that space, of a smaller one.
    try:
        return board.journal_flash(kb or board.JOURNAL_KB)
    except OSError as e:
        if kb or e.errno != _ENOSPC:
            raise
        return board.journal_flash()


def kind(config):
    # Its class. Devices need not know the names of modules that others load.
    if config.sleep_ms and hasattr(config, "wake_on_pin"):
        try:
            return __import__("wake_pin_app").App
        except ImportError:  # a board that no pin wakes
            say("wake_on_pin: nothing wakes this board but the time: leave it out")
    if config.sleep_ms:
        from sleeping_app import SleepingApp

        return SleepingApp
    if any("report_on_change" in entry for entry in config.sensors or ()):
        return __import__("changes_app").App
    from app import App

    return App


def build(board, began, crash=None, limit=None, path=None, trial=False):
    """Returns the application. crash: what ended the starts before. limit: limits what it does, see safe. path: the
    file of a configuration that is tried, see settings. trial: a release is tried, which this start counts for. Raises
    ValueError with the necessary change, OSError if the flash fails."""
    config = _configuration(board, path, limit)
    config.trial = path is not None
    if config.setup and not (trial or path):
        from offline import begin

        begin(board, config, began)
    if config.ha is None and exists(beside(board, "home.json")):
        config.ha = ""  # what was announced to Home Assistant is to be removed
    tls = None
    if config.tls_ca:
        from secure import context

        tls = context(config.tls_ca, config.tls_cert, config.tls_key)
    Application = kind(config)
    # Behind the application: with that of a sensor that sleeps a Pico W collects no garbage any more.
    from inflight import Client, Journal
    from node import will

    if limit:
        from safe import mount

        flash = mount(board)
    else:
        flash = _journal_flash(board, config.journal_kb)
    journal = Journal(flash)
    n = config.journal_kb * 1024 // flash.ioctl(5, 0)
    if n > flash.ioctl(4, 0) and hasattr(flash, "grow") and not limit:
        flash, journal = flash.grow(journal, n)
        if n > flash.ioctl(4, 0):
            print(
                "inflight: no space for a journal of %d KiB, it keeps its %d" % (config.journal_kb, journal.size >> 10)
            )
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
        slept=Application.slept(board, config) if config.expiry_s else 0,
        buffer=bytearray(config.buffer),
        max_inflight=config.max_inflight,
        when_full=config.when_full,
        timeout_ms=Application.timeout(config),
        reconnect=Application.RECONNECT,
    )
    return Application(board, config, journal, client, flash, () if limit else None, began, crash)
