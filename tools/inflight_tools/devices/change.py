"""A change of a device's configuration: read as a person types it, checked as the device checks it, described."""

import contextlib
import importlib
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from inflight_tools import dry_run
from inflight_tools.boards.device.link import DeviceError
from inflight_tools.output import WrongArgument
from inflight_tools.settings import SECRETS, config_fields, configured, device_code, known_drivers

# A device whose configuration is not known may have one of these. What none of them takes, no device takes.
_USUAL = {"host": "-", "user": "-", "protocol_level": 5, "watchdog_ms": 0, "buffer": 32768, "timeout_ms": 1000}
_POSSIBLE = [_USUAL | {"wifi_ssid": "-"}, _USUAL | {"wifi_ssid": "-", "sleep_ms": 60_000}, _USUAL]
_POSSIBLE.append(_USUAL | {"wifi_ssid": "-", "tls_ca": "/ca.der"})
_NOT_RECEIVED = 7  # bytes of half a `buffer`: what MQTT has around topic and payload of QoS 2
_OTHER_NAMES = {"wifi_password": "wifi_key", "wifi_pass": "wifi_key", "ssid": "wifi_ssid", "broker": "host"}


def read(words, ask):
    """{field: value} of words like interval_ms=5000; null removes a field. ask(field) returns a secret that is not in
    its word. Raises WrongArgument."""
    given = {}
    for word in words:
        name, _, text = word.partition("=")
        if name in _OTHER_NAMES:
            raise WrongArgument(f'there is no field {name}: did you mean "{_OTHER_NAMES[name]}"?')
        if name in given:
            raise WrongArgument(f"{name} is there twice: name it once")
        if name not in SECRETS and not text:
            _check_name(name)
            raise WrongArgument(f"{name}: write {name}=value, or {name}=null to remove it")
        given[name] = text
    return {name: value_of(name, text or ask(name)) for name, text in given.items()}


def by_cable(name):
    """Whether no command changes this field."""
    return name in ("update_keys", "setup") or name.startswith("tls_")


def _check_name(name):
    # Of what has no value: whether there is such a field, and what it may be.
    try:
        configured(json.dumps({"host": "-", name: None}))
    except ValueError as e:
        raise WrongArgument(str(e)) from None


def value_of(name, text):
    """The value of a field that is written so."""
    field = config_fields().get(name)
    if text == "null":
        return None
    if field and field.is_text and (name, text) != ("ntp", "false"):
        return text
    return json_or_text(text)  # a prefix for `ha`; the check refuses all others


def json_or_text(text):
    """The value that the JSON `text` says, or the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def differing(whole, known):
    """The fields of `whole` that a device with the configuration `known` has to change. True is not 1; a secret may be
    there without being known."""

    def text(value):
        return json.dumps(value, sort_keys=True)

    def unknown(name):
        return name in SECRETS and name not in known

    return {name: value for name, value in whole.items() if unknown(name) or text(value) != text(known.get(name))}


def message(fields):
    """The payload of the command `set`. Raises WrongArgument: JSON has no number that is not finite."""
    for name, value in fields.items():
        try:
            json.dumps(value, allow_nan=False)
        except ValueError:
            raise WrongArgument(f"{name}: a number is too large, or none: write another one") from None
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "surrogatepass")


def send(connection, device, fields, timeout_s):
    """Returns when a Device is there again with these fields. Raises DeviceError, WrongArgument."""
    told = connection.change(device, message(fields), timeout_s)
    shown = {name: value for name, value in fields.items() if name not in SECRETS}
    # One that was switched off while it tried others tells of those with the first health behind its next birth.
    with contextlib.suppress(DeviceError):  # it does not answer: it may sleep
        if not told or (shown and not differing(shown, connection.configuration(device, timeout_s))):
            return
    raise DeviceError(f"{device.name}: {told}")


def check(fields, device, known=None):
    """Raises WrongArgument if the device of that name would refuse the change, by the firmware's own code for the
    command `set`, or if a dry run shows a new problem. Returns those that the change leaves as they were, texts. known:
    its configuration, a dict; without it, what depends on other fields is left to the device, as are pins and drivers
    of its own, and fields that only its newer firmware has."""
    problem = None
    known = {name: value for name, value in (known or {}).items() if name in config_fields()}
    for before in [known] if known else _POSSIBLE:
        with device_code(), tempfile.TemporaryDirectory() as folder:  # which nobody else may read
            path = f"{folder}/config.json"
            Path(path).write_text(json.dumps(before))
            board = SimpleNamespace(config_path=lambda path=path: path)
            stand_in = SimpleNamespace(board=board, config=SimpleNamespace(device=device, trial=False))
            entries: Any = importlib.import_module("entries")
            check_entries, entries.check = entries.check, lambda config: None
            try:
                importlib.import_module("settings").change(stand_in, message(fields))
                entries.check = check_entries
                old = _problems(before, device)
                found = _problems({**before, **fields}, device)
                for new in found:
                    if new not in old:
                        raise ValueError(new)
                _check_size(fields, device, known)
                return found
            except ValueError as e:
                problem = problem or str(e)
    raise WrongArgument(problem)


def _check_size(fields, device, known):
    if known and type(buffer := known.get("buffer", 1024)) is int:
        most, topic = buffer // 2 - _NOT_RECEIVED, f"{known.get('root', 'inflight')}/{device}/command/set@{2**32}"
        if (size := len(topic.encode()) + len(message(fields))) > most:
            raise ValueError(
                f"the change has {size} bytes, the device takes {most}: change less at once, or `buffer` first"
            )


def _problems(fields, device):
    whole = {name: value for name, value in fields.items() if value is not None}
    try:
        config = importlib.import_module("config").check(whole, device)
    except ValueError as e:
        return [str(e)]
    known = {*known_drivers("sensor"), *known_drivers("actuator")}
    own = {entry["driver"] for entry in [*(config.sensors or ()), *(config.actuators or ())]} - known
    return list(dry_run.problems(config, own=own))  # the device knows its pins


def without_secrets(fields):
    """`fields`, a dict, with a word in place of each secret."""
    return {name: "(secret)" if name in SECRETS and value else value for name, value in fields.items()}


def described(fields, known=None):
    """Yields "interval_ms: 10000 -> 5000" of each field. known: the configuration before, if it is known."""
    defaults = vars(configured(None))

    def shown(name, shown_fields):
        value = shown_fields.get(name)
        if value is None:
            value = defaults.get(name)
            return "none" if value is None else f"{json.dumps(value)} (default)"
        return json.dumps(value, ensure_ascii=False)

    after = without_secrets(fields)
    before = known and without_secrets(known)
    for name in fields:
        yield f"{name}: {shown(name, before) if known else 'not known'} -> {shown(name, after)}"
