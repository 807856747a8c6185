# What precedes a join: settings of the radio, the order of several networks. Loaded for it.

import sys

import network


def apply(wifi, config):
    """Host name, two letters of the country with the radio's rules, (address, mask, gateway, name server) without DHCP,
    other networks that will do, "wpa3" if the network of join() accepts nothing else, dBm, whether the radio sleeps
    between beacons. Raises ValueError."""
    sys.modules.pop("wifi_settings", None)
    network.hostname(config.hostname or wifi.name)
    wifi.address = tuple(config.wifi_ip) if config.wifi_ip else None
    wifi.networks = [(n["ssid"], n.get("key"), n.get("security")) for n in config.wifi_networks or ()]
    wifi.default_security = config.wifi_security
    wifi.txpower = config.wifi_txpower
    wifi.power_save = config.wifi_power_save
    if config.wifi_country:
        network.country(config.wifi_country)
        wifi.nic.active(False)  # takes effect when the radio starts


def by_signal(wlan, wanted):
    """Returns `wanted`, a list of (ssid, key, security), with the strongest network first. Networks that a scan does
    not find come last, in their order: hidden ones are among them. Takes some seconds."""
    best = {ssid.encode(): -200 for ssid, _, _ in wanted}
    try:
        wlan.active(True)
        wlan.disconnect()
        for ap in wlan.scan():
            if ap[0] in best:
                best[ap[0]] = max(ap[3], best[ap[0]])
    except (OSError, MemoryError):
        pass  # the driver is busy, or a neighbour announces hundreds
    sys.modules.pop("wifi_settings", None)
    found = [(-best[wanted[i][0].encode()], i) for i in range(len(wanted))]
    return [wanted[i] for _, i in sorted(found)]
