# The fields of the configuration that belong to the network: those of Wi-Fi, `network`, of Ethernet, and `setup`, by
# which a person changes the network. Loaded while a configuration is checked.

from binascii import unhexlify

TEXTS = ("wifi_ssid", "wifi_key", "wifi_security", "wifi_country", "hostname")
# Without wifi_ssid the others of these mean nothing. What the comments at a field say is the reference of users, see
# tools/reference_pages.py.
_OF_WIFI = (
    "wifi_key",  # 8 to 63 characters, or 64 hexadecimal digits
    # `wpa3` for a network that accepts nothing else: needed by a Pico W, with MicroPython 1.25 or later. Not tried on
    # hardware
    "wifi_security",
    # more networks, `[{"ssid": "...", "key": "...", "security": "wpa3"}]`: the strongest is tried first, hidden ones
    # last
    "wifi_networks",
    # transmitting power in dBm, 2 to 21; by default the board's: some ESP32-C3 boards connect with 8.5 only
    "wifi_txpower",
    # the country, for the radio rules: two capital letters, `DE`. MicroPython for the ESP32 ignores it
    "wifi_country",
    # `["address", "mask", "gateway", "name server"]` in place of DHCP: joins faster
    "wifi_ip",
    "wifi_power_save",  # true: the radio sleeps between beacons. Answers take longer
)
NETWORK_FIELDS = (
    ("wifi_ssid",)  # the network's name, 32 bytes at most; it may be hidden
    + _OF_WIFI
    + (
        # name in the local network: letters, digits, `-`, 32 at most; by default `inflight-` and the end of the
        # device's identity
        "hostname",
        "network",  # Ethernet instead of Wi-Fi: the driver and its pins
        # `{"code": "...", "pin": 0}`: the page that changes the network opens after an hour without one, or with a
        # button at this pin. The command `set` does not change it
        "setup",
    )
)
# What decides who gets a secret, unless TLS proves who the broker is.
PLACE = ("wifi_ssid", "wifi_key", "wifi_networks", "wifi_ip", "network")
_DRIVERS = {  # pins and numbers: of them needed, and the others
    "lan8720": (("mdc", "mdio"), ("power", "reset", "phy_addr", "ref_clk")),
    "w5500": (("sck", "mosi", "miso", "cs"), ("int", "reset", "spi", "baudrate")),
}
_SSID = 32  # bytes
_KEY = 8, 63  # bytes of a passphrase
_HEX = 64  # digits of the key that is made of it
_MOST = {"phy_addr": 31, "spi": 3, "baudrate": 80_000_000}
_PINS = 63


def check_network(given, config, error):
    """Takes the fields of the dict `given` as attributes of `config`; `joins`: there is a network to join. Raises
    error(text)."""
    for name in NETWORK_FIELDS:
        setattr(config, name, given.get(name))
    config.wifi_power_save = bool(config.wifi_power_save)
    for name in TEXTS:
        value = given.get(name)
        if value is not None and (not isinstance(value, str) or not value):
            raise error('%s: write a text in quotes, "%s": "..."' % (name, name))
    for name in ("wifi_ip", "wifi_networks"):
        if given.get(name) is not None and not isinstance(given[name], list):
            raise error('%s: write a list, "%s": [...]' % (name, name))
    if not isinstance(given.get("wifi_power_save", False), bool):
        raise error("wifi_power_save: write true or false")
    for name in _OF_WIFI:
        if getattr(config, name) and not config.wifi_ssid:
            raise error("%s needs wifi_ssid: write both, or leave %s out" % (name, name))
    _check_wifi(config, error)
    if config.network is not None:
        _check_ethernet(config.network, error)
        if config.wifi_ssid:
            raise error("network: a cable, or wifi_ssid, not both: leave one out")
    if config.setup is not None:
        from setup_code import check as check_setup

        check_setup(config, error)
    config.joins = bool(config.network or config.wifi_ssid)


def _check_wifi(config, error):
    dbm = config.wifi_txpower
    if dbm is not None and (isinstance(dbm, bool) or not isinstance(dbm, (int, float)) or not 2 <= dbm <= 21):
        raise error("wifi_txpower: write dBm, a number from 2 to 21")
    country = config.wifi_country
    if country and (len(country) != 2 or min(country.encode()) < 65 or max(country.encode()) > 90):
        raise error('wifi_country: write two capital letters, "wifi_country": "DE"')
    _check_hostname(config.hostname, error)
    if config.wifi_ip is not None:
        _check_address("wifi_ip", config.wifi_ip, error)
    _check_security("wifi_security", config.wifi_security, error)
    _check_lengths("wifi_ssid", config.wifi_ssid, "wifi_key", config.wifi_key, error)
    for entry in config.wifi_networks or ():
        if not isinstance(entry, dict) or not isinstance(entry.get("ssid"), str) or not entry["ssid"]:
            raise error('wifi_networks: write objects, "wifi_networks": [{"ssid": "...", "key": "..."}]')
        for name in entry:
            if name not in ("ssid", "key", "security"):
                from suggestion import unknown

                raise error(unknown("wifi_networks: unknown field", name, ("ssid", "key", "security")))
        if not isinstance(entry.get("key", ""), str):
            raise error('wifi_networks: write a text in quotes, "key": "..."')
        _check_security("wifi_networks: security", entry.get("security"), error)
        _check_lengths("wifi_networks: ssid", entry["ssid"], "wifi_networks: key", entry.get("key"), error)


def _check_lengths(ssid_field, ssid, key_field, key, error):
    # What a radio takes.
    if ssid and len(ssid.encode()) > _SSID:
        raise error("%s: write %d bytes at most" % (ssid_field, _SSID))
    if not key:
        return
    size = len(key.encode())
    if size == _HEX:
        try:
            unhexlify(key)
            return
        except ValueError:
            pass
    if not _KEY[0] <= size <= _KEY[1]:
        raise error("%s: write %d to %d characters, or %d hexadecimal digits" % ((key_field,) + _KEY + (_HEX,)))


def _check_hostname(name, error):
    if not name:
        return
    if len(name) > 32:
        raise error("hostname: write 32 characters at most")
    for c in name:
        if not (c.isalpha() or c.isdigit() or c == "-") or ord(c) > 126:
            raise error("hostname: use letters, digits and -")
    if name[0] == "-" or name[-1] == "-":
        raise error("hostname: write a letter or a digit first and last")


def _check_security(field, value, error):
    if value not in (None, "wpa3"):
        raise error('%s: write "wpa3" for a network that accepts nothing else, or leave it out' % field)


def _check_address(field, address, error):
    if not (isinstance(address, list) and len(address) == 4 and all(_is_ipv4(text) for text in address)):
        raise error('%s: write ["address", "mask", "gateway", "name server"], each as "192.168.1.20"' % field)


def _is_ipv4(text):
    parts = text.split(".") if isinstance(text, str) else ()
    return len(parts) == 4 and all(part.encode().isdigit() and len(part) < 4 and int(part) < 256 for part in parts)


def pins(fields):
    """[(name, number)] of the pins in the field `network`."""
    needed, more = _DRIVERS[fields["driver"]]
    return [(name, fields[name]) for name in needed + more if name in fields and name not in _MOST]


def _check_ethernet(fields, error):
    driver = fields.get("driver") if isinstance(fields, dict) else None
    if driver not in _DRIVERS:
        raise error('network: write {"driver": "lan8720", ...} or {"driver": "w5500", ...}, with its pins')
    needed, more = _DRIVERS[driver]
    for name in needed:
        if name not in fields:
            raise error("network: %s is missing: write the number of its pin" % name)
    for name in fields:
        value = fields[name]
        if name == "ip":
            _check_address("network: ip", value, error)
        elif name == "ref_clk_mode" and driver == "lan8720":
            if value not in ("in", "out"):
                raise error('network: ref_clk_mode: write "in" or "out"')
        elif name in needed or name in more:
            most = _MOST.get(name, _PINS)
            if type(value) is not int or not 0 <= value <= most:
                raise error("network: %s: write a whole number from 0 to %d" % (name, most))
        elif name != "driver":
            from suggestion import unknown

            raise error(unknown("network: unknown field", name, needed + more + ("ip",)))
