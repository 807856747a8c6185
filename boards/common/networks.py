# Chooses among several networks. Loaded for each join of a device that has more than one.

import sys


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
    sys.modules.pop("networks", None)
    found = [(-best[wanted[i][0].encode()], i) for i in range(len(wanted))]
    return [wanted[i] for _, i in sorted(found)]
