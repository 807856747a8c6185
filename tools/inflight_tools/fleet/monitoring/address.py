"""Where something is served: what the options --metrics and --listen say."""

from inflight_tools.output import WrongArgument

_LOOPBACK = "127.0.0.1"


def address(text, option="--metrics"):
    """(host, port) of [HOST:]PORT, by default on loopback, which `option` gives. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise WrongArgument(f"{option} {text}: a port, or host:port, as in 9464 or 0.0.0.0:9464")
    return host.strip("[]") or _LOOPBACK, int(port)


def both(place):
    """Where `pipeline` serves metrics at `place`, [HOST:]PORT: (of the collector, of the tables). Raises ValueError."""
    host, port = address(place)
    return f"{host}:{port}", f"{host}:{port + 1 if port else 0}"
