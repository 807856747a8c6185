# The set-up of a device that has a configuration: for five minutes its page takes another network, and nothing else. It
# asks for the code of the configuration, which is also the key of the access point: nobody without it reads what is
# entered. It shows nothing of the configuration. The network is tried before it is kept; the broker is not, since it
# stays the same, and may be away.

import hashlib
import json

from config import check, parse
from inflight.compat import const, ticks_add, ticks_diff, ticks_ms
from setup import Setup, serve_until_set_up

_OPEN_MS = const(300_000)
_TRIES = const(3)
_FAREWELL_MS = const(15_000)  # for so long the page tells the end, if nobody asks for it


def _same(one, other):
    # In a time that tells nothing of either.
    one, other = [hashlib.sha256(text.encode()).digest() for text in (one, other)]
    unlike = 0
    for i in range(len(one)):
        unlike |= one[i] ^ other[i]
    return not unlike


class Again(Setup):
    """A Setup for the board's configuration, with this code."""

    def __init__(self, board, radio, code):
        super().__init__(board, radio, code)
        self._code = code
        self._tries = _TRIES
        self._closes = ticks_add(ticks_ms(), _OPEN_MS)

    def step(self):
        super().step()
        if not (self.busy or self.ends) and ticks_diff(ticks_ms(), self._closes) >= 0:
            self.ends = ticks_ms()

    def _search(self):
        return None

    def _open(self, field):
        raise ValueError("no file belongs to it")

    def _submit(self, fields, error):
        if self.busy or self.ends:
            return
        if error or fields is None:
            self._tell(error or "this is no form")
        elif not _same(fields.get("code", ""), self._code):
            self._tries -= 1
            if self._tries:
                self._tell("the code is wrong: %d more can be tried" % self._tries)
            else:
                self._end("the code is wrong: the page closes", "bad")
        else:
            self._begin(fields.get("other", "") or fields.get("ssid", ""), fields.get("key") or None)

    def _begin(self, ssid, key):
        given = {"host": "-", "wifi_ssid": ssid}  # only what changes is checked: the rest may have an error
        if key:
            given["wifi_key"] = key
        try:
            if not ssid:
                raise ValueError("choose a network")
            check(given, self._board.device_id)
        except ValueError as e:
            self._tell(str(e))
            return
        self._given = given
        self._start(self._change(ssid, key), self._changed)

    def _change(self, ssid, key):
        yield from self._join(ssid, key)
        from settings import replace

        with open(self._board.config_path(), "rb") as f:
            given = parse(f.read())
        given["wifi_ssid"] = ssid
        given.pop("wifi_key", None)
        if key:
            given["wifi_key"] = key
        replace(self._board, json.dumps(given))

    def _changed(self, error):
        if error:
            self._tell(error)
        else:
            self._end("saved: the device restarts with the network %s" % self._given["wifi_ssid"], "good")

    def _end(self, note, kind):
        self._tell(note, kind)
        self.ends = ticks_add(ticks_ms(), _FAREWELL_MS)

    def _parts(self):
        if self.busy:
            return "setup_outcome", "again", self.name
        if self.ends:
            self._farewell = True
            return ()
        return "setup_form", "network_form", self._given, self._networks


def run(board, radio, code):
    """Waits until the network is changed, or the time is over. Raises KeyboardInterrupt at Ctrl-C."""
    serve_until_set_up(board, radio, Again(board, radio, code), "open for 5 minutes, the code is the key")
