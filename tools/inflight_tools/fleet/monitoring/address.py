"""Where metrics are served: what the option --metrics says."""

_LOOPBACK = "127.0.0.1"


def address(text):
    """(host, port) of [HOST:]PORT, by default on loopback. Raises ValueError."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise ValueError(f"--metrics {text}: a port, or host:port, as in 9464 or 0.0.0.0:9464")
    return host.strip("[]") or _LOOPBACK, int(port)


def both(place):
    """Where `pipeline` serves metrics at `place`, [HOST:]PORT: (of the collector, of the tables). Raises ValueError."""
    host, port = address(place)
    return f"{host}:{port}", f"{host}:{port + 1 if port else 0}"
