# Chooses among several networks. Loaded for each join of a device that has more than one.

import sys


def by_signal(wlan, wanted):
    """Returns `wanted`, a list of (ssid, key, security), with the strongest network first. Networks that a scan does
    not find come last, in their order: hidden ones are among them. Takes some seconds."""
    best = {}
    try:
        wlan.active(True)
        wlan.disconnect()
        for ap in wlan.scan():
            best[ap[0]] = max(ap[3], best.get(ap[0], -200))
    except OSError:
        pass  # the driver is busy
    sys.modules.pop("networks", None)
    found = [(-best.get(wanted[i][0].encode(), -200), i) for i in range(len(wanted))]
    return [wanted[i] for _, i in sorted(found)]
