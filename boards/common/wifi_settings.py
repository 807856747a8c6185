# What wifi_setup() sets. Loaded for it.

import sys

import network


def apply(
    wifi, hostname=None, country=None, address=None, networks=None, security=None, txpower=None, power_save=False
):
    """Host name, two letters of the country with the radio's rules, (address, mask, gateway, name server) without DHCP,
    other networks that will do, "wpa3" if the network of join() accepts nothing else, dBm, whether the radio sleeps
    between beacons. Raises ValueError."""
    sys.modules.pop("wifi_settings", None)
    network.hostname(hostname or wifi.name)
    wifi.address = tuple(address) if address else None
    wifi.networks = [(n["ssid"], n.get("key"), n.get("security")) for n in networks or ()]
    wifi.default_security = security
    wifi.txpower = txpower
    wifi.power_save = power_save
    if country:
        network.country(country)
        wifi.wlan.active(False)  # takes effect when the radio starts
