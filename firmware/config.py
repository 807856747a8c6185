# The configuration: a JSON object in a file. Every field is checked; errors tell what to do, and never show a value
# that could be a secret.

import json
from binascii import a2b_base64

REQUIRED = "required"
NOT_JSON = "not JSON: look for a missing quote, comma or brace"
# Numbers: default, minimum, maximum.
_NUMBERS = {
    "port": (0, 0, 65535),  # 0: 1883, or 8883 with TLS
    "qos": (1, 1, 2),
    "protocol_level": (4, 3, 5),
    "expiry_s": (0, 0, 31_536_000),  # of telemetry; 0: for ever
    "will_delay_s": (0, 0, 31_536_000),  # 0: none, or two and a half sleeps between reports
    "keepalive": (60, 0, 65535),
    "max_inflight": (8, 1, 64),
    "buffer": (1024, 512, 32768),
    "timeout_ms": (10_000, 100, 60_000),
    "interval_ms": (10_000, 100, 86_400_000),
    "health_ms": (60_000, 1_000, 86_400_000),
    "watchdog_ms": (120_000, 0, 3_600_000),  # 0: none
    "sleep_ms": (0, 0, 86_400_000),  # from wake to wake of a deep-sleep sensor, 0: it stays awake
    "awake_ms": (30_000, 1_000, 60_000),  # longest time of a wake
    "report_every": (1, 1, 255),  # the radio is on at each n-th wake
}
# Texts and their defaults.
_TEXTS = {
    "host": REQUIRED,
    "user": None,
    "password": None,
    "root": "inflight",
    "device": None,  # the board's own identity
    "when_full": None,
    "tls_ca": None,
    "tls_cert": None,
    "tls_key": None,
    "wifi_ssid": None,
    "wifi_key": None,
    "wifi_security": None,
    "wifi_country": None,
    "hostname": None,
    "log": "off",
    "ntp": "pool.ntp.org",  # or False: no server
}
_LISTS = ("sensors", "actuators", "wifi_ip", "wifi_networks", "update_keys")
_OTHERS = ("wifi_txpower", "wifi_power_save", "ha")
_FIELDS = list(_NUMBERS) + list(_TEXTS) + list(_LISTS + _OTHERS)
_NEEDS = (
    ("password", "user"),
    ("tls_cert", "tls_key"),
    ("tls_key", "tls_cert"),
    ("tls_cert", "tls_ca"),
    ("wifi_key", "wifi_ssid"),
    ("wifi_security", "wifi_ssid"),
    ("wifi_networks", "wifi_ssid"),
    ("wifi_txpower", "wifi_ssid"),
    ("wifi_power_save", "wifi_ssid"),
    ("wifi_country", "wifi_ssid"),
    ("wifi_ip", "wifi_ssid"),
)


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


def _check_names(root, device):
    # Used in topics, client ids and SenML names: characters allowed in all of these.
    _check_name("root", root, "-_./")
    _check_name("device", device, "-_.")
    if root[0] == "/" or root[-1] == "/" or "//" in root:
        raise ConfigError("root: write topic levels with one / between them, none at the ends")


def _check_network(country, hostname, address):
    if country and (len(country) != 2 or not country.isalpha() or country != country.upper()):
        raise ConfigError('wifi_country: write two capital letters, "wifi_country": "DE"')
    if hostname:
        _check_name("hostname", hostname, "-", 32)
        if hostname[0] == "-" or hostname[-1] == "-":
            raise ConfigError("hostname: write a letter or a digit first and last")
    if address is not None and not (len(address) == 4 and all(_is_ipv4(text) for text in address)):
        raise ConfigError('wifi_ip: write ["address", "mask", "gateway", "name server"], each as "192.168.1.20"')


def _check_flag(name, value):
    if not isinstance(value, bool):
        raise ConfigError("%s: write true or false" % name)
    return value


def _check_ha(prefix):
    # Returns the prefix of Home Assistant's discovery, None without it.
    if prefix is None or isinstance(prefix, bool):
        return "homeassistant" if prefix else None
    if not isinstance(prefix, str) or not prefix:
        raise ConfigError('ha: write true, or the prefix of the discovery topics, "ha": "homeassistant"')
    _check_name("ha", prefix, "-_./")
    return prefix


def _check_power(dbm):
    if dbm is not None and (isinstance(dbm, bool) or not isinstance(dbm, (int, float)) or not 2 <= dbm <= 21):
        raise ConfigError("wifi_txpower: write dBm, a number from 2 to 21")
    return dbm


def _check_networks(entries):
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("ssid"), str) or not entry["ssid"]:
            raise ConfigError('wifi_networks: write objects, "wifi_networks": [{"ssid": "...", "key": "..."}]')
        for name in entry:
            if name not in ("ssid", "key", "security"):
                raise ConfigError('wifi_networks: unknown field "%s": use ssid, key and security' % name)
        if not isinstance(entry.get("key", ""), str):
            raise ConfigError('wifi_networks: write a text in quotes, "key": "..."')
        _check_security("wifi_networks: security", entry.get("security"))


def _check_security(field, value):
    if value not in (None, "wpa3"):
        raise ConfigError('%s: write "wpa3" for a network that accepts nothing else, or leave it out' % field)


def _is_ipv4(text):
    parts = text.split(".") if isinstance(text, str) else ()
    return len(parts) == 4 and all(part.encode().isdigit() and len(part) < 4 and int(part) < 256 for part in parts)


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
        raise ConfigError('write one JSON object, {"host": "broker.example", ...}')
    for name in given:
        if name not in _FIELDS:
            raise ConfigError('unknown field "%s": remove it, or use one of %s' % (name, ", ".join(sorted(_FIELDS))))
    config = Config()
    for name in _NUMBERS:
        setattr(config, name, check_number(name, given.get(name, _NUMBERS[name][0])))
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
    config.wifi_power_save = _check_flag("wifi_power_save", given.get("wifi_power_save", False))
    config.ha = _check_ha(given.get("ha"))
    config.wifi_txpower = _check_power(given.get("wifi_txpower"))
    config.device = config.device or (device() if callable(device) else device)
    _check_together(config)
    return config


def _check_together(config):
    if config.host is REQUIRED:
        raise ConfigError('host is missing: write "host": "broker.example"')
    if config.when_full not in (None, "oldest", "newest"):
        raise ConfigError('when_full: write "oldest" or "newest", or leave it out to refuse new messages when full')
    if config.log not in ("info", "error", "off"):
        raise ConfigError('log: write "info", "error" or "off"')
    for name in ("expiry_s", "will_delay_s"):
        if getattr(config, name) and config.protocol_level < 5:
            raise ConfigError('%s needs MQTT 5: write "protocol_level": 5, or leave it out' % name)
    for name, other in _NEEDS:
        if getattr(config, name) and not getattr(config, other):
            raise ConfigError("%s needs %s: write both, or leave %s out" % (name, other, name))
    if 0 < config.watchdog_ms < 3 * config.timeout_ms:
        raise ConfigError("watchdog_ms: write 0, or three times timeout_ms at least")
    if config.sleep_ms and 0 < config.watchdog_ms < 2 * config.awake_ms:
        raise ConfigError("watchdog_ms: write 0, or twice awake_ms at least")
    _check_names(config.root, config.device)
    _check_network(config.wifi_country, config.hostname, config.wifi_ip)
    _check_security("wifi_security", config.wifi_security)
    _check_networks(config.wifi_networks or ())
    if config.update_keys is not None:
        keys = config.update_keys
        if not 0 < len(keys) <= 2 or not all(map(_is_public_key, keys)):
            raise ConfigError("update_keys: write one public key, or two, as `inflight keys` prints them")
        config.update_keys = True  # they would take 1 KB of RAM: they are read when they are needed
    _check_drivers("sensors", config.sensors or (), "-_.:/", "dht22")
    _check_drivers("actuators", config.actuators or (), "-_.", "switch")
    if config.actuators and config.sleep_ms:
        raise ConfigError("actuators: not with sleep_ms, a device that sleeps does not hold its pins")


def load(path, device, limit=None):
    """Returns the Config in the file at path; check() tells what `device` is. limit: chooses the fields, see safe.
    Raises ConfigError."""
    problem = ""
    try:
        with open(path) as f:
            text = f.read().strip()
        # MicroPython accepts an object without its end: an incomplete file would lose fields silently.
        if text[-1:] != "}":
            raise ValueError
        given = json.loads(text)
        return check(limit(given) if limit else given, device)
    except ConfigError as e:
        problem = str(e)
    except OSError:
        problem = 'cannot be read: create it with {"host": "broker.example"}'
    except ValueError:
        problem = NOT_JSON
    raise ConfigError("%s: %s" % (path, problem))
