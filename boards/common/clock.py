# Sets the clock by the network, with the module that MicroPython's ports for boards bring.

import time

_NOTHING = (2036, 2, 7, 6, 28, 16)  # how a timestamp of 0 reads: no time at all


def sync(host=None):
    """Asks `host`, default pool.ntp.org, twice for 1 s beside the look-up of its name. Returns True if the
    clock is right now, False if that failed; then it is as it was."""
    import ntptime
    from machine import RTC

    ntptime.host = host or "pool.ntp.org"
    ntptime.timeout = 1
    for _ in range(2):
        try:
            t = time.gmtime(ntptime.time())
        except Exception:  # no network, no such name, no answer, half an answer
            continue
        if t[:6] != _NOTHING:
            RTC().datetime((t[0], t[1], t[2], t[6] + 1, t[3], t[4], t[5], 0))
            return True
    return False
