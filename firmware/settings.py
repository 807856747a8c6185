# Changes of the configuration by commands. What could cut the device off is tried first: the file config.json.new
# becomes config.json.try at the next start, and config.json when the device has connected with it. A start that finds
# config.json.try, which the start before did not confirm, removes it. A change goes on from those before it, which may
# wait for that still. Loaded when it is needed.

import json
import os

from config import ConfigError, check, parse
from files import exists, kept_json, write
from network_fields import PLACE
from telemetry import describe

_NEW = ".new"
_TRY = ".try"
# What decides who gets a secret; the networks do, for the password, unless TLS proves who the broker is.
_BROKER = ("host", "port", "user")


def _files(app):
    # The files with a configuration that is in force, or may come to be: the newest first.
    path = app.board.config_path()
    tried = (path + _TRY,) if app.config.trial else ()
    return [name for name in (path + _NEW,) + tried if exists(name)] + [path]


def _changed(app, path, fields):
    # The text of the configuration in the file at path, with `fields` in place of its own. Raises ConfigError.
    if not isinstance(fields, dict) or not fields:
        raise ConfigError('write one JSON object with the fields to change, {"interval_ms": 60000}')
    with open(path) as f:
        before = json.loads(f.read())
    given = dict(before)
    for name in fields:
        if name.startswith("tls_"):
            raise ConfigError("%s: a file belongs to it, use deploy" % name)
        if name == "update_keys":
            raise ConfigError("update_keys: whoever sends commands must not choose who signs, use deploy")
        if name == "setup":
            raise ConfigError("setup: whoever sends commands must not choose who sets up, use deploy")
        given[name] = fields[name]
        if fields[name] is None:
            del given[name]
    # Whoever sends a command need not know a secret: he must not have it sent to a place of his choice.
    places = _BROKER if given.get("tls_ca") else _BROKER + PLACE
    for secret, places in (("password", places), ("wifi_key", PLACE[:1])):
        for name in places:
            if secret in before and secret not in fields and before.get(name) != given.get(name):
                raise ConfigError("%s: write it as well, or null: with another %s it may go elsewhere" % (secret, name))
    config = check(given, app.config.device)
    if config.device != app.config.device:
        raise ConfigError("device: the journal belongs to the present name, to change it flash with --erase")
    if "sensors" in fields or "actuators" in fields or fields.get("wake_on_pin") is not None:
        from entries import check as check_entries

        check_entries(config)
    return json.dumps(given)


def told(app):
    """The newest configuration without its secrets, a dict."""
    found = kept_json(_files(app)[0], {})
    for name in ("password", "wifi_key", "wifi_networks", "setup"):
        found.pop(name, None)
    return found


def keep(app, **fields):
    """Writes fields, already in effect, into the configuration. Raises ValueError, OSError."""
    for path in _files(app):
        write(path, _changed(app, path, fields))


def change(app, text):
    """The next start tries the fields of `text`, a JSON object; null removes one. Raises ValueError, OSError."""
    fields = parse(text)
    write(app.board.config_path() + _NEW, _changed(app, _files(app)[0], fields))


def replace(board, text):
    """The configuration is `text` from the next start on; what was to be tried is forgotten. Raises OSError."""
    path = board.config_path()
    for name in (path + _NEW, path + _TRY):
        if exists(name):
            os.remove(name)
    write(path, text)


def _rename(path, end):
    try:
        os.rename(path, end)
        return True
    except OSError:
        return False


def begin(board, record):
    """Returns the path of the configuration that this start tries, None if there is none, and what ended the starts
    before. Forgets what an earlier start tried in vain. record: what ended that one, None if nothing did."""
    path = board.config_path()
    ended = record["error"] if record and not record["told"] else "no connection with the changed settings"
    try:
        return None, give_up(board, ended)
    except OSError:
        return (path + _TRY if _rename(path + _NEW, path + _TRY) else None), record


def give_up(board, reason):
    """The next start has the settings before those that were tried; health tells why. Returns the record of that, see
    crash. Raises OSError if none were."""
    os.remove(board.config_path() + _TRY)
    from crash import note

    return note(board, "set: %s, the old ones are back" % reason, 0)


def confirm(app):
    """The device has connected with what it tried. Returns True if a driver does not take it: then it is given up."""
    app.config.trial = False
    path = app.board.config_path()
    try:
        old = kept_json(path, {})
    except OSError:
        old = {}  # all entries are new
    for source in app.sources:
        if getattr(source, "error", None):
            app.errors[source.__name__] = describe(source.error)  # it was not read yet
    for kind in ("sensors", "actuators"):
        for entry in getattr(app.config, kind) or ():
            name = entry.get("name") or entry["driver"]
            what, _, why = app.errors.get(name, "").partition(": ")
            if what == "SensorError" and entry not in (old.get(kind) or ()):
                give_up(app.board, "%s: %s: %s" % (kind, name, why))
                app.stopping = True
                return True
    _rename(path + _TRY, path)
