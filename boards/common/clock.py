# Sets the clock from the network by SNTP (RFC 5905). Needed seldom: it unloads itself.

import sys
import time

_EPOCH = 946_684_800 if time.gmtime(0)[0] == 2000 else 0
_YEAR = 2023  # the first; with 32 bits from 1970 on, 2038 is 1901
_FROM_1900 = 2_208_988_800  # that of NTP
_QUERY = b"\x1b" + bytes(47)  # version 3, from a client
_SERVER = 4  # mode of an answer
_UNSYNCHRONISED = 3  # leap indicator
_STRATA = range(1, 16)  # 0 is an error, 16 has no time


def sync(host=None, within=None):
    """Asks `host` twice, by default two servers of pool.ntp.org, with a time-out of 1 s after name resolution; False:
    nobody. Sets the clock to an answer of a server that knows the time, if it is not before the day this firmware was
    built, nor outside of `within`: (least, most) in s since 1970. Returns True if the clock was set; None if an answer
    was outside of `within`; else False. The clock is unchanged then, but not before the day of the build: from there it
    goes to the middle of `within`, or to that day. Without that, TLS would refuse certificates as not valid yet."""
    from built import TIME

    result = False
    try:
        for server in () if host is False else (host or "pool.ntp.org", host or "2.pool.ntp.org"):
            try:
                t = _ask(server)
                year = time.gmtime(t - _EPOCH)[0]
            except Exception:  # no network, unknown name, no answer, incomplete answer, no such time on this board
                continue
            if t < TIME or year < _YEAR:
                continue
            if within and not within[0] <= t <= within[1]:
                result = None
                continue
            _set(t)
            return True
        if time.time() + _EPOCH < TIME:
            _set(max(TIME, sum(within or (0,)) // 2))
        return result
    finally:
        for name in ("clock", "built"):
            sys.modules.pop(name, None)


def _ask(host):
    # Returns seconds since 1970, 0 if the server does not know the time.
    import socket

    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.settimeout(1)
        sock.sendto(_QUERY, socket.getaddrinfo(host, 123)[0][-1])
        answer = sock.recv(48)
    finally:
        sock.close()
    seconds = int.from_bytes(answer[40:44], "big")  # when it was sent
    if answer[0] & 7 != _SERVER or answer[0] >> 6 == _UNSYNCHRONISED or answer[1] not in _STRATA or not seconds:
        return 0
    if not seconds >> 31:
        seconds += 1 << 32  # they wrap around in 2036
    return seconds - _FROM_1900


def _set(t):
    from machine import RTC

    t = time.gmtime(t - _EPOCH)
    RTC().datetime((t[0], t[1], t[2], t[6] + 1, t[3], t[4], t[5], 0))
