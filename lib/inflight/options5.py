# What differs when a client of level 5 is made. Loaded for that, beside options.

from .compat import const
from .mqtt5 import Session5

_MOST_INFLIGHT = const(64)


def check(session_expiry, clean_session, max_inflight, retry_ms):
    """Raises ValueError."""
    if session_expiry is not None and (clean_session or not 0 < session_expiry <= 0xFFFFFFFF):
        raise ValueError("session_expiry is 1 to 4294967295 seconds; clean_session=True keeps no session")
    if max_inflight > _MOST_INFLIGHT:
        raise ValueError("level 5: max_inflight is %d at most" % _MOST_INFLIGHT)
    if retry_ms:
        raise ValueError("level 5 repeats nothing on the same connection [MQTT5-4.4.0-1]: retry_ms is 0")


def session(session_expiry, clean_session, journal, buffer, name, *settings):
    """Returns the client's session."""
    adopt = not (name or clean_session)
    return Session5(journal, buffer, name, *settings, adopt=adopt, session_expiry=session_expiry or 0xFFFFFFFF)
