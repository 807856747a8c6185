"""The option --metrics of `collect` and `tables`."""

import typer

METRICS = typer.Option(None, help="serve metrics for Prometheus at this port of 127.0.0.1, or at host:port")


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
        raise OSError("--metrics needs prometheus-client: pip install 'inflight[fleet]'") from None
    source = make(metrics)
    _, host, port = metrics.serve(place, source)
    say(f"metrics at http://{host}:{port}/metrics")
    return source
