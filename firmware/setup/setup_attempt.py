# Tries the settings before the device keeps them. Each attempt is a generator, a step at a time, so that the page stays
# there; it raises Failed with what the person has to know.

import sys
from errno import EACCES, ECONNREFUSED, ETIMEDOUT

from codes import CONNECTING, NO_ADDRESS, NO_AP, ONLINE, WRONG_KEY
from inflight.compat import const

_TRIES = const(2)  # an ESP32's first join may fail for no reason
_TIMEOUT_MS = const(8_000)
_WIFI = {
    WRONG_KEY: "the key of the network %s is wrong",
    NO_AP: "there is no network %s here",
    NO_ADDRESS: "the network %s gave no address",
}


class Failed(Exception):
    """What went wrong, for a person."""


def join(radio, ssid, key):
    """Joins a network."""
    word = None
    for _ in range(_TRIES):
        radio.join(ssid, key)
        word = radio.joined()
        while word == CONNECTING:
            yield
            word = radio.joined()
        if word == ONLINE:
            return
    raise Failed(_WIFI.get(word, "joining the network %s failed") % ssid)


def reach(board, config):
    """Connects to the broker and leaves it; a step of this may take as long as the time-out."""
    tls = None
    if config.tls_ca:
        board.sync_time(config.ntp)  # certificates have dates
        yield
        from secure import context

        try:
            tls = context(config.tls_ca)
        except ValueError as e:
            raise Failed(str(e))
    yield
    try:
        _connect(config, tls)
    except Exception as e:  # also what answers and is no broker
        raise Failed(_reason(config, e))


def _connect(config, tls):
    from unload import since

    before = list(sys.modules)
    try:
        _connect_once(config, tls)
    finally:  # the page takes the space of the client
        since(before)


def _connect_once(config, tls):
    from inflight import Client

    # Its own client id: a session that the broker keeps for this device stays as it is.
    client = Client(
        config.host,
        config.device[:17] + "-setup",
        port=config.port,
        tls=tls,
        user=config.user,
        password=config.password,
        clean_session=True,
        timeout_ms=_TIMEOUT_MS,
        reconnect=False,
    )
    try:
        client.connect()
    finally:
        client.disconnect()


def place_of(config):
    """Host and port of the broker, as text."""
    return "%s:%d" % (config.host, config.port or (8883 if config.tls_ca else 1883))


def _reason(config, error):
    place = place_of(config)
    code = getattr(error, "errno", None)
    if code == EACCES:
        return "the broker %s refuses user name or password" % place
    if hasattr(error, "code"):
        return "the broker %s refuses the connection: %s" % (place, error)
    if code == ECONNREFUSED:
        return "no broker at %s: nothing listens there" % place
    if code == ETIMEDOUT:
        return "no broker at %s: no answer" % place
    advice = "; TLS: is it the right CA, and the host's name as in the certificate?" if config.tls_ca else ""
    return "no broker at %s: %s%s" % (place, error, advice)
