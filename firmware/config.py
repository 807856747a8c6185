# The configuration: a JSON object in a file, every field checked. Errors say what to do, and never
# show what could be a secret.

import json

REQUIRED = "required"
# Numbers: default, least, most.
_NUMBERS = {
    "port": (0, 0, 65535),  # 0: 1883, or 8883 with TLS
    "qos": (1, 1, 2),
    "level": (4, 3, 4),
    "keepalive": (60, 0, 65535),
    "window": (8, 1, 64),
    "buffer": (1024, 512, 32768),
    "timeout_ms": (10_000, 100, 60_000),
    "interval_ms": (10_000, 100, 86_400_000),
    "health_ms": (60_000, 1_000, 86_400_000),
    "watchdog_ms": (120_000, 0, 3_600_000),  # 0: none
}
# Texts and their defaults.
_TEXTS = {
    "host": REQUIRED,
    "user": None,
    "password": None,
    "root": "inflight",
    "device": None,  # the board's own identity
    "drop": None,
    "tls_ca": None,
    "tls_cert": None,
    "tls_key": None,
    "wifi_ssid": None,
    "wifi_key": None,
}
_NEEDS = (
    ("password", "user"),
    ("tls_cert", "tls_key"),
    ("tls_key", "tls_cert"),
    ("tls_cert", "tls_ca"),
    ("wifi_key", "wifi_ssid"),
)


class ConfigError(ValueError):
    """What is wrong, and what to write instead."""


def check_number(name, value):
    """Returns value if it is a number that field `name` takes. Raises ConfigError."""
    _, least, most = _NUMBERS[name]
    if type(value) is not int or not least <= value <= most:
        raise ConfigError("%s: write a whole number from %d to %d" % (name, least, most))
    return value


def _check_text(name, value):
    if not isinstance(value, str) or not value:
        raise ConfigError('%s: write a text in quotes, "%s": "..."' % (name, name))
    return value


def _check_names(root, device):
    # They go into topics, client ids and SenML names: what all of these take.
    for name, text, more in (("root", root, "-_./"), ("device", device, "-_.")):
        if len(text) > 64:
            raise ConfigError("%s: write 64 characters at most" % name)
        for c in text:
            if not (c.isalpha() or c.isdigit() or c in more) or ord(c) > 126:
                raise ConfigError("%s: use letters, digits and %s" % (name, more))
    if root[0] == "/" or root[-1] == "/" or "//" in root:
        raise ConfigError("root: write topic levels with one / between them, none at the ends")


class Config:
    """The fields of dict `given`, checked, with defaults, as attributes. `device` is the identity
    used if `given` has none. Raises ConfigError."""

    def __init__(self, given, device):
        if not isinstance(given, dict):
            raise ConfigError('write one JSON object, {"host": "broker.example", ...}')
        for name in given:
            if name not in _NUMBERS and name not in _TEXTS:
                known = ", ".join(sorted(list(_NUMBERS) + list(_TEXTS)))
                raise ConfigError('unknown field "%s": remove it, or use one of %s' % (name, known))
        for name in _NUMBERS:
            setattr(self, name, check_number(name, given.get(name, _NUMBERS[name][0])))
        for name in _TEXTS:
            value = given.get(name)
            setattr(self, name, _TEXTS[name] if value is None else _check_text(name, value))
        self.device = self.device or device
        self._check()

    def _check(self):
        if self.host is REQUIRED:
            raise ConfigError('host is missing: write "host": "broker.example"')
        if self.drop not in (None, "oldest", "newest"):
            raise ConfigError('drop: write "oldest" or "newest", or leave it out to refuse new messages when full')
        for name, other in _NEEDS:
            if getattr(self, name) and not getattr(self, other):
                raise ConfigError("%s needs %s: write both, or leave %s out" % (name, other, name))
        if 0 < self.watchdog_ms < 3 * self.timeout_ms:
            raise ConfigError("watchdog_ms: write 0, or three times timeout_ms at least")
        _check_names(self.root, self.device)


def load(path, device):
    """Returns the Config in the file at path. Raises ConfigError."""
    problem = ""
    try:
        with open(path) as f:
            text = f.read().strip()
        # MicroPython takes an object without its end: a file cut short would lose fields silently.
        if text[-1:] != "}":
            raise ValueError
        return Config(json.loads(text), device)
    except ConfigError as e:
        problem = str(e)
    except OSError:
        problem = 'cannot be read: create it with {"host": "broker.example"}'
    except ValueError:
        problem = "not JSON: look for a missing quote, comma or brace"
    raise ConfigError("%s: %s" % (path, problem))
