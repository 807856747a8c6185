# When the set-up page of a device with a configuration opens: at the start after an hour without a network, and at one
# at which a button is pressed. Loaded if the configuration has `setup`.
#
# What the board remembers, in 6 bytes: for how long there was no network, _GONE and seconds, over the restarts that
# follow from that; _OPENED if the last start opened the page. Behind them stands what the application keeps, see app:
# the time that the page takes is added. A power cut forgets all of it.

from codes import ONLINE
from inflight.compat import const, sleep_ms, ticks_add, ticks_diff, ticks_ms
from log import report, say

_GONE = b"gone"
_OPENED = b"opened"
_SIZE = const(6)
_TIME = const(8)
_HOUR_S = const(3_600)
_STEP_S = const(10)
_MOST_S = const(65_530)
_READS = const(5)  # of the button: a disturbance is shorter
_READ_MS = const(10)


def _gone_s(board):
    kept = board.recall() or b""
    return int.from_bytes(kept[len(_GONE) : _SIZE], "little") if kept[: len(_GONE)] == _GONE else 0


class _Offline:
    # Keeps the network of `app` by its Connectivity, and remembers for how long there was none.

    def __init__(self, app, connectivity):
        self._app = app
        self._connectivity = connectivity
        self._gone_s = _gone_s(app.board)
        self._at = ticks_ms()

    def keep(self, client):
        status = self._connectivity.keep(client)
        now = ticks_ms()
        if status == ONLINE:
            self._at = now
            if self._gone_s:
                self._remember(0)
        elif ticks_diff(now, self._at) >= _STEP_S * 1000:
            self._at = ticks_add(self._at, _STEP_S * 1000)
            self._remember(min(self._gone_s + _STEP_S, _MOST_S))
            self._restart()
        return status

    def _remember(self, s):
        self._gone_s = s
        self._app.board.remember(_GONE + s.to_bytes(2, "little"))

    def _restart(self):
        # Not while settings or a release are tried: these starts are counted, and open no page.
        app = self._app
        if self._gone_s >= _HOUR_S and not (app.config.trial or getattr(app.update, "runs", False)):
            from crash import restart

            restart(app, "no network for an hour: the set-up opens")


def keep(app, connectivity):
    """Returns what keeps the network of `app` in the place of its `connectivity`, and measures for how long there was
    none."""
    return _Offline(app, connectivity)


def _is_pressed(number):
    try:
        from machine import Pin

        button = Pin(number, Pin.IN, Pin.PULL_UP)
        for _ in range(_READS):
            if button.value():
                return False
            sleep_ms(_READ_MS)
        return True
    except (ImportError, OSError, TypeError, ValueError) as e:
        report(e)  # this board has no such pin
        return False


def begin(board, config, began):
    """Opens the page if that is due, and restarts the device after it. Returns if it is not. began: ticks_ms() of this
    start."""
    pressed = "pin" in config.setup and _is_pressed(config.setup["pin"])
    kept = board.recall() or b""
    time = kept[_SIZE:]
    if kept[:_SIZE] == _OPENED:
        if not pressed:
            board.remember(bytes(_SIZE) + time)
        return  # a button that stays pressed, or a wire to ground, must not keep the device away
    if not pressed and _gone_s(board) < _HOUR_S:
        return
    board.remember(_OPENED)  # first: a set-up that fails is not repeated
    try:
        import setup_board
        from setup_again import run
    except ImportError as e:  # a release has no set-up
        say("no set-up: " + str(e))
        return
    if setup_board.available():
        run(board, setup_board, config.setup["code"])
        if time:
            now = int.from_bytes(time[:_TIME], "little") + ticks_diff(ticks_ms(), began) // 10
            board.remember(_OPENED + now.to_bytes(_TIME, "little") + time[_TIME:])
        board.sleep(0, True)
