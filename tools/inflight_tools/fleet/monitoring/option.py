"""The option --metrics of `collect`, `tables` and `pipeline`."""

from inflight_tools.extras import not_installed

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


def serve_metrics(place, say, make):
    """Serves a source of metrics at `place`, [HOST:]PORT, and says where. Returns it; None without a place. Raises
    ValueError if that is no place; OSError if nothing can be served there.

    make: a function that makes the source, of the module metrics. That is imported here: nobody else needs
    prometheus-client."""
    if not place:
        return None
    try:
        from inflight_tools.fleet.monitoring import metrics
    except ImportError:
        raise OSError("--metrics: " + not_installed("prometheus-client", "fleet")) from None
    source = make(metrics)
    _, host, port = metrics.serve(*address(place), source)
    say(f"metrics at http://{host}:{port}/metrics")
    return source
