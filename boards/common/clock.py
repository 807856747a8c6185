# Sets the clock from the network, with the ports' module ntptime.

import time

_NOTHING = (2036, 2, 7, 6, 28, 16)  # an NTP timestamp of 0, which means no time


def sync(host=None):
    """Asks `host`, default pool.ntp.org, twice, with a time-out of 1 s after name resolution. Returns True if the
    clock was set; False leaves it unchanged."""
    import ntptime
    from machine import RTC

    ntptime.host = host or "pool.ntp.org"
    ntptime.timeout = 1
    for _ in range(2):
        try:
            t = time.gmtime(ntptime.time())
        except Exception:  # no network, unknown name, no answer, incomplete answer
            continue
        if t[:6] != _NOTHING:
            RTC().datetime((t[0], t[1], t[2], t[6] + 1, t[3], t[4], t[5], 0))
            return True
    return False
