# The check of the field `setup` of a configuration. Loaded where a configuration has it.

from inflight.compat import const

_PINS = const(63)


def check(config, error):
    """Checks the field `setup` of the Config `config`. Raises error(text)."""
    given = config.setup
    code = given.get("code") if isinstance(given, dict) else None
    # It is the key of an access point, too: a passphrase of WPA2.
    if not isinstance(code, str) or not 8 <= len(code) <= 63 or not 31 < min(code.encode()) <= max(code.encode()) < 127:
        raise error('setup: write a code of 8 to 63 characters of ASCII, "setup": {"code": "..."}')
    for name in given:
        if name == "pin":
            if type(given[name]) is not int or not 0 <= given[name] <= _PINS:
                raise error("setup: pin: write a whole number from 0 to %d" % _PINS)
        elif name != "code":
            from suggestion import unknown

            raise error(unknown("setup: unknown field", name, ("code", "pin")))
    if not config.wifi_ssid:
        raise error("setup needs wifi_ssid: write both, or leave setup out")
