# The configuration: a JSON object in a file. Every field is checked; errors tell what to do, and never show a value
# that could be a secret. The tools check a configuration with this module, too: what the board reads, and nothing that
# it would read otherwise, must pass there.

import json
from binascii import a2b_base64

from inflight import __version__ as VERSION
from network_fields import NETWORK_FIELDS, check_network

REQUIRED = "required"
_CONNECT = 67, 65, 82  # bytes of CONNECT beside names, user and password, at levels 3, 4 and 5
_EXAMPLE = '{"host": "broker.example"}'
# What the comments at a field say is the reference of users, see tools/reference_pages.py.
# Numbers: default, minimum, maximum.
_NUMBERS = {
    "port": (0, 0, 65535),  # the broker's; 0: 1883, or 8883 with TLS
    # QoS of telemetry. Commands are of QoS 2. Where the field is written, it is also the highest QoS of commands and of
    # all else: write 1 for a broker without QoS 2
    "qos": (1, 1, 2),
    # 5: MQTT 5, 4: MQTT 3.1.1, 3: MQTT 3.1. It may be changed while messages wait in the journal
    "protocol_level": (4, 3, 5),
    # MQTT 5: readings older than this many seconds are dropped (0: never). Health counts what the device drops as
    # `expired`; nobody counts what the broker drops
    "expiry_s": (0, 0, 31_536_000),
    # MQTT 5: seconds that the broker waits before it publishes that the device is offline. A device that sleeps is
    # `offline` if it does not come back after this time, or after two and a half intervals between reports
    "will_delay_s": (0, 0, 31_536_000),
    # seconds of silence after which the broker closes the connection and publishes the will, 0: never
    "keepalive": (60, 0, 65535),
    "max_inflight": (8, 1, 64),  # the most messages in flight
    # the most readings, of one moment each, that are gathered in one message without a connection; 1: none
    "batch": (20, 1, 255),
    "buffer": (1024, 512, 32768),  # bytes of RAM for packets, half each way; user and password have to fit one
    # KiB of flash for messages that wait, in blocks of 4; 0: the board's, or what is there. The journal grows, and does
    # not shrink
    "journal_kb": (0, 12, 1020),
    "timeout_ms": (10_000, 100, 60_000),  # the longest that a connect, a write or an answer may take
    "interval_ms": (10_000, 100, 86_400_000),  # time between readings of a device that is always awake
    "health_ms": (60_000, 1_000, 86_400_000),  # time between health messages; without a connection an hour at least
    # the board restarts if the program hangs for this time, 0: never. At least three times `timeout_ms`, and with
    # `sleep_ms` twice `awake_ms`
    "watchdog_ms": (120_000, 0, 3_600_000),
    "sleep_ms": (0, 0, 86_400_000),  # time between wakes of a sensor that sleeps, 0: it does not sleep
    "awake_ms": (30_000, 1_000, 60_000),  # the longest that a wake may take
    "report_every": (1, 1, 255),  # the radio is on at every n-th wake
}
# Texts and their defaults.
_TEXTS = {
    "host": REQUIRED,  # name or address of the broker, without a port
    "user": None,  # at the broker
    "password": None,  # at the broker, with `user`
    "root": "inflight",  # the first levels of all topics
    # the device's name in topics, and its client id; by default it comes from the chip. A journal belongs to one name:
    # with another one it has to go
    "device": None,
    # a label, as `greenhouse`: report, console and metrics add up the devices of a group. Letters, digits, `-_.`
    "group": None,
    # when the journal is full: by default new messages are refused; `thin` gives up every second message of readings,
    # from the oldest on; `oldest` drops the oldest messages, `newest` the new one
    "when_full": None,
    # file with the certificate of the authority that issued the broker's, DER; without one there is no TLS
    "tls_ca": None,
    "tls_cert": None,  # file with the device's own certificate, DER
    "tls_key": None,  # file with its key, DER
    "log": "off",  # publishes log lines from this level on: `info`, `error`
    "ntp": "pool.ntp.org",  # server for the clock; `false`: none
}
_LISTS = (
    "sensors",  # beside those of the board itself
    "actuators",  # not with `sleep_ms`
    "update_keys",  # one public key or two, which sign releases; without one there are no updates
)
_FIELDS = (
    list(_NUMBERS)
    + list(_TEXTS)
    + list(
        _LISTS
        + (
            # true: the device appears in Home Assistant. A text: the prefix of the discovery topics, if it is not
            # `homeassistant`
            "ha",
            # ESP32 with `sleep_ms`: the GPIO whose change ends the sleep
            "wake_on_pin",
        )
        + NETWORK_FIELDS
    )
)
_NEEDS = (("password", "user"), ("tls_cert", "tls_key"), ("tls_key", "tls_cert"), ("tls_cert", "tls_ca"))


class ConfigError(ValueError):
    """What is wrong, and what to write instead."""


def check_number(name, value):
    """Returns value if it is in the range of field `name`. Raises ConfigError."""
    _, least, most = _NUMBERS[name]
    if type(value) is not int or not least <= value <= most:
        raise ConfigError("%s: write a whole number from %d to %d" % (name, least, most))
    return value


def _check_text(name, value):
    if not isinstance(value, str) or not value:
        raise ConfigError('%s: write a text in quotes, "%s": "..."' % (name, name))
    return value


def _check_name(field, text, more, most=64):
    if len(text) > most:
        raise ConfigError("%s: write %d characters at most" % (field, most))
    for c in text:
        if not (c.isalpha() or c.isdigit() or c in more) or ord(c) > 126:
            raise ConfigError("%s: use letters, digits and %s" % (field, more))


def _check_host(field, text, port):
    # A name or an address, as it goes to the resolver. port: what to do with one.
    for c in text.encode():
        if not 32 < c < 127 or c in b"/@[]":  # of a URL; what is not ASCII has another form in DNS, xn--...
            raise ConfigError('%s: write a name or an address alone, "%s": "broker.example"' % (field, field))
    if text.count(":") == 1:
        raise ConfigError("%s: %s" % (field, port))


def _check_ha(prefix):
    # Returns the prefix of Home Assistant's discovery, None without it.
    if prefix is None or isinstance(prefix, bool):
        return "homeassistant" if prefix else None
    if not isinstance(prefix, str) or not prefix:
        raise ConfigError('ha: write true, or the prefix of the discovery topics, "ha": "homeassistant"')
    _check_name("ha", prefix, "-_./")
    return prefix


def _check_drivers(field, entries, characters, example):
    # Checks names only. The driver checks the other fields of an entry; an error there concerns one
    # sensor or actuator, not the device.
    names = set()
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("driver"), str):
            raise ConfigError('%s: write objects, "%s": [{"driver": "%s", "pin": 4}]' % (field, field, example))
        name = entry.get("name") or entry["driver"]
        _check_name(field + ": name", _check_text("name", name), characters, 32)
        if not (name[0].isalpha() or name[0].isdigit()):
            raise ConfigError("%s: begin a name with a letter or a digit" % field)
        if name in names:
            raise ConfigError('%s: "%s" is there twice, give each a "name" of its own' % (field, name))
        names.add(name)


def _is_public_key(text):
    # True if it may be the modulus of an RSA-3072 key, in base64: an odd number of 384 bytes, without leading zeros.
    try:
        modulus = a2b_base64(text.encode()) if isinstance(text, str) and len(text) == 512 else b""
    except ValueError:
        return False
    return len(modulus) == 384 and modulus[0] > 127 and modulus[-1] % 2 == 1


class Config:
    """The checked fields, with defaults, as attributes. It has no methods, so that keeping it does not keep this
    module, which is unloaded."""

    trial = False  # settings changed by a command, which the device has not connected with yet


def check(given, device):
    """Returns the Config that dict `given` describes. `device` is the identity used if it has none, or
    a function that returns it. Raises ConfigError."""
    if not isinstance(given, dict):
        raise ConfigError("write one JSON object, " + _EXAMPLE)
    for name in given:
        if name not in _FIELDS:
            from suggestion import unknown

            raise ConfigError(unknown("unknown field", name, _FIELDS))
        if name in ("ha", "ntp") and given[name] in ("true", "false"):
            raise ConfigError("%s: write %s without quotes" % (name, given[name]))
    config = Config()
    for name in _NUMBERS:
        setattr(config, name, check_number(name, given[name]) if name in given else _NUMBERS[name][0])
    config.most_qos = config.qos if "qos" in given else 2
    for name in _TEXTS:
        value = given.get(name)
        if name == "ntp" and value is False:
            config.ntp = False
            continue
        setattr(config, name, _TEXTS[name] if value is None else _check_text(name, value))
    for name in _LISTS:
        value = given.get(name)
        if value is not None and not isinstance(value, list):
            raise ConfigError('%s: write a list, "%s": [...]' % (name, name))
        setattr(config, name, value)
    config.ha = _check_ha(given.get("ha"))
    config.device = config.device or (device() if callable(device) else device)
    _check_together(given, config)
    return config


def _check_together(given, config):
    if config.host is REQUIRED:
        raise ConfigError("host is missing: write " + _EXAMPLE)
    _check_host("host", config.host, "write the port in `port`")
    if config.ntp:
        _check_host("ntp", config.ntp, "leave the port out, it is 123")
    if config.when_full not in (None, "thin", "oldest", "newest"):
        raise ConfigError('when_full: write "thin", "oldest" or "newest", or leave it out to refuse new messages')
    config.thins = config.when_full == "thin"
    if config.thins:
        config.when_full = None  # of the client: the application thins, see thin
    if config.log not in ("info", "error", "off"):
        raise ConfigError('log: write "info", "error" or "off"')
    for name in ("expiry_s", "will_delay_s"):
        if getattr(config, name) and config.protocol_level < 5:
            raise ConfigError('%s needs MQTT 5: write "protocol_level": 5, or leave it out' % name)
    if config.port == 8883 and not config.tls_ca:
        raise ConfigError("port: 8883 is that of TLS: write tls_ca, or leave port out")
    for name, other in _NEEDS:
        if getattr(config, name) and not getattr(config, other):
            raise ConfigError("%s needs %s: write both, or leave %s out" % (name, other, name))
    for name, times in (("timeout_ms", 3), ("awake_ms", 2 if config.sleep_ms else 0)):
        if 0 < config.watchdog_ms < times * getattr(config, name):
            raise ConfigError("watchdog_ms: write 0, or %d times %s at least" % (times, name))
    # Used in topics, client ids and SenML names: characters allowed in all of these.
    root = config.root
    _check_name("root", root, "-_./")
    _check_name("device", config.device, "-_.")
    _check_name("group", config.group or "", "-_.")
    if root[0] == "/" or root[-1] == "/" or "//" in root:
        raise ConfigError("root: write topic levels with one / between them, none at the ends")
    size = _CONNECT[config.protocol_level - 3] + len(root) + 2 * len(config.device) + len(VERSION)
    for text in (config.user, config.password):
        size += 2 + len(text.encode()) if text else 0
    if config.buffer < 2 * size:
        raise ConfigError("buffer: write %d at least (CONNECT takes %d bytes)" % (2 * size, size))
    check_network(given, config, ConfigError)
    if config.update_keys is not None:
        keys = config.update_keys
        if not 0 < len(keys) <= 2 or not all(map(_is_public_key, keys)):
            raise ConfigError("update_keys: write one public key, or two, as `inflight keys` prints them")
        config.update_keys = True  # they would take 1 KB of RAM: they are read when they are needed
    name = "wake_on_pin"  # an attribute only where it is given: other devices need not know its name
    if given.get(name) is not None:
        if type(given[name]) is not int or not 0 <= given[name] <= 48:
            raise ConfigError("wake_on_pin: write the number of a GPIO")
        if not config.sleep_ms:
            raise ConfigError("wake_on_pin needs sleep_ms: write both, or leave wake_on_pin out")
        setattr(config, name, given[name])
    _check_drivers("sensors", config.sensors or (), "-_.:/", "dht22")
    _check_drivers("actuators", config.actuators or (), "-_.", "switch")
    if config.actuators and config.sleep_ms:
        raise ConfigError("actuators: not with sleep_ms, which does not hold pins")


def parse(data, loads=json.loads):
    """What the JSON object `data` (bytes) says, by `loads`. Raises ConfigError where a board would read something else,
    or nothing."""
    if data[:3] == b"\xef\xbb\xbf":
        raise ConfigError("begins with a BOM: save it as UTF-8 without one")
    # MicroPython makes of each half of a pair a character of its own.
    escapes = data.replace(b"\\\\", b"").replace(b"\\uD", b"\\ud").split(b"\\ud")
    for i in range(1, len(escapes)):
        if not b"0" <= escapes[i][:1] < b"8":
            raise ConfigError("write characters as they are, not as \\ud83d\\ude00")
    try:
        text = str(data, "utf-8")
    except UnicodeError:
        raise ConfigError("not UTF-8: save it as UTF-8")
    text = text.strip(" \t\r\n")  # without an argument CPython takes more away
    # MicroPython accepts an object without its end: an incomplete file would lose fields silently.
    if text[-1:] == "}":
        try:
            return loads(text)
        except ConfigError:
            raise
        except ValueError:
            pass  # what json says may quote it
    raise ConfigError("not JSON, or no object: look for a missing quote, comma or brace")


def load(path, device, limit=None):
    """Returns the Config in the file at path; check() tells what `device` is. limit: chooses the fields, see safe.
    Raises ConfigError."""
    problem = ""
    try:
        with open(path, "rb") as f:
            given = parse(f.read())
        return check(limit(given) if limit else given, device)
    except ConfigError as e:
        problem = str(e)
    except OSError:
        problem = "cannot be read: create it with " + _EXAMPLE
    raise ConfigError("%s: %s" % (path, problem))
