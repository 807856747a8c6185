# The check of the field `setup` of a configuration. Loaded where a configuration has it.


def check(config, error):
    """Checks the field `setup` of the Config `config`. Raises error(text)."""
    given = config.setup
    code = given.get("code") if isinstance(given, dict) else None
    # It is the key of an access point, too: a passphrase of WPA2.
    if not isinstance(code, str) or not 8 <= len(code) <= 63 or not 31 < min(code.encode()) <= max(code.encode()) < 127:
        raise error('setup: write a code of 8 to 63 characters of ASCII, "setup": {"code": "..."}')
    number = given.get("pin", 0)
    if type(number) is not int or not 0 <= number <= 63:
        raise error("setup: pin: write the number of a GPIO")
    if len(given) > 1 + ("pin" in given):
        raise error("setup: remove all but code and pin")
    if not config.wifi_ssid:
        raise error("setup needs wifi_ssid: write both, or leave setup out")
