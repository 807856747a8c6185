"""The option --metrics of `collect`, `tables` and `pipeline`."""

from inflight_tools.extras import not_installed


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
    _, host, port = metrics.serve(place, source)
    say(f"metrics at http://{host}:{port}/metrics")
    return source
