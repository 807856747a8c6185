# Sets the clock from the network, with the ports' module ntptime. Needed seldom: it unloads itself.

import sys
import time

_NOTHING = (2036, 2, 7, 6, 28, 16)  # an NTP timestamp of 0, which means no time
_EPOCH = 946_684_800 if time.gmtime(0)[0] == 2000 else 0


def sync(host=None):
    """Asks `host`, default pool.ntp.org, twice, with a time-out of 1 s after name resolution; False: nobody. Returns
    True if the clock was set. Otherwise it is unchanged, but not before the day this firmware was built: without that,
    TLS would refuse certificates as not valid yet."""
    from built import TIME

    try:
        if host is not False and _ask(host or "pool.ntp.org"):
            return True
        earliest = TIME - _EPOCH
        if time.time() < earliest:
            _set(time.gmtime(earliest))
        return False
    finally:
        for name in ("clock", "built"):
            sys.modules.pop(name, None)


def _ask(host):
    try:
        import ntptime

        ntptime.host = host
        ntptime.timeout = 1
    except ImportError:  # a firmware without it
        return False
    for _ in range(2):
        try:
            t = time.gmtime(ntptime.time())
        except Exception:  # no network, unknown name, no answer, incomplete answer
            continue
        if t[:6] != _NOTHING:
            _set(t)
            return True
    return False


def _set(t):
    from machine import RTC

    RTC().datetime((t[0], t[1], t[2], t[6] + 1, t[3], t[4], t[5], 0))
