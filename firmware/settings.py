# Changes of the configuration by commands. What could cut the device off is tried first: the file config.json.new
# becomes config.json.try at the next start, and config.json when the device has connected with it. A start that finds
# config.json.try, which the start before did not confirm, removes it. Loaded when it is needed.

import json
import os
import sys

from config import ConfigError, check
from files import write

_NEW = ".new"
_TRY = ".try"


def _changed(app, fields):
    # The text of the configuration with `fields` in place of its own. Raises ConfigError.
    if not isinstance(fields, dict) or not fields:
        raise ConfigError('write one JSON object with the fields to change, {"interval_ms": 60000}')
    with open(app.board.config_path()) as f:
        given = json.loads(f.read())
    for name in fields:
        if name.startswith("tls_"):
            raise ConfigError("%s: a file belongs to it, use deploy" % name)
        if name == "update_keys":
            raise ConfigError("update_keys: whoever sends commands must not choose who signs, use deploy")
        given[name] = fields[name]
        if fields[name] is None:
            del given[name]
    check(given, app.config.device)
    return json.dumps(given)


def keep(app, **fields):
    """Writes fields, already in effect, into the configuration. Raises ValueError, OSError."""
    write(app.board.config_path(), _changed(app, fields))


def change(app, text):
    """The next start tries the fields of `text`, a JSON object; null removes one. Raises ValueError, OSError."""
    try:
        fields = json.loads(text)
    except ValueError:
        raise ConfigError("not JSON: look for a missing quote, comma or brace")
    write(app.board.config_path() + _NEW, _changed(app, fields))


def _rename(path, end):
    try:
        os.rename(path, end)
        return True
    except OSError:
        return False


def begin(board):
    """Returns the path of the configuration that this start tries, None if there is none. Forgets what an earlier start
    tried in vain."""
    path = board.config_path()
    try:
        os.remove(path + _TRY)
        from crash import note

        note(board, "set: no connection with the changed settings, the old ones are back", 0)
    except OSError:
        if _rename(path + _NEW, path + _TRY):
            return path + _TRY
    return None


def confirm(app):
    """The device has connected with what it tried."""
    app.config.trial = False
    path = app.board.config_path()
    _rename(path + _TRY, path)
    for name in ("settings", "config"):
        sys.modules.pop(name, None)
