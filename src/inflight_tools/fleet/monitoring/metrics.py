"""The metrics of `collect`, `tables`, `upload` and `download`, and the HTTP server that Prometheus asks for them."""

import os

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from inflight_tools.fleet.monitoring.option import address

# Name after inflight_collector_, the attribute of Counters, what it counts.
_COUNTERS = (
    ("messages", "messages", "Messages received, repetitions included."),
    ("payload_bytes", "bytes", "Bytes of their payloads."),
    ("acknowledged_messages", "acknowledged_messages", "Messages that were on disk before they were acknowledged."),
    ("lag_seconds", "lag_s", "Sum of the seconds from receipt to acknowledgement, over acknowledged messages."),
    ("batches", "batches", "Writes to disk."),
    ("duplicates", "dup", "Messages with DUP set."),
    ("truncated", "truncated", "Messages whose payload was cut."),
    ("reconnects", "reconnects", "Connections to the broker that ended."),
    ("write_errors", "errors", "Failures to write to the disk."),
)


def serve(text, *sources):
    """Serves the metrics of `sources` at [HOST:]PORT. Returns (server, host, port). Raises ValueError; OSError if the
    port is taken.

    source: an object with a method collect(), as prometheus-client has it."""
    host, port = address(text)
    registry = CollectorRegistry()
    for source in sources:
        registry.register(source)
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as e:
        raise OSError(f"--metrics {text}: {e.strerror or e}") from None
    return server, host, server.server_port


class CollectorMetrics:
    """Of a collector.Collector. `disk`: the folder of landing files."""

    def __init__(self, collector, name, disk):
        self._collector, self._name, self._disk = collector, name, disk

    def _one(self, family, name, text, value):
        metric = family(f"inflight_collector_{name}", text, labels=["collector"])
        metric.add_metric([self._name], value)
        return metric

    def collect(self):
        counters = self._collector.counters
        for name, attribute, text in _COUNTERS:
            yield self._one(CounterMetricFamily, name, text, getattr(counters, attribute))
        yield self._one(CounterMetricFamily, "landing_files", "Landing files finished.", self._collector.files)
        connected = "Whether the broker accepts the collector."
        yield self._one(GaugeMetricFamily, "connected", connected, int(self._collector.connected))
        acknowledged = "When messages were last acknowledged, in s since 1970; 0: not since the start."
        yield self._one(GaugeMetricFamily, "acknowledged_timestamp_seconds", acknowledged, counters.acknowledged_at)
        try:
            disk = os.statvfs(self._disk)
        except OSError:  # it is gone, which `write_errors` counts
            return
        free = "Bytes that are free for landing files."
        yield self._one(GaugeMetricFamily, "disk_free_bytes", free, disk.f_bavail * disk.f_frsize)


class TablesMetrics:
    """Of the stream into the tables. Whoever runs it calls batch() and unread()."""

    def __init__(self):
        self._batches = self._deliveries = self._files = self._bytes = self._stale = 0
        self._seconds = self._last = self._last_at = 0.0

    def batch(self, deliveries, seconds, at):
        """Counts a finished batch. at: in s since 1970."""
        self._batches += 1
        self._deliveries += deliveries
        self._seconds += seconds
        self._last, self._last_at = seconds, at

    def unread(self, found):
        """found: what landing.summary() returns."""
        self._files, self._bytes, self._stale = found["files"], found["bytes"], found["stale"]

    def collect(self):
        for name, text, value in (
            ("batches", "Micro-batches with deliveries.", self._batches),
            ("deliveries", "Deliveries in them, repetitions included.", self._deliveries),
            ("batch_seconds", "Seconds that they took.", self._seconds),
        ):
            yield CounterMetricFamily(f"inflight_tables_{name}", text, value)
        for name, text, value in (
            ("last_batch_seconds", "Seconds that the last one took.", self._last),
            ("last_batch_timestamp_seconds", "When it ended, in s since 1970; 0: none since the start.", self._last_at),
            ("unread_files", "Landing files that are in no finished batch.", self._files),
            ("unread_bytes", "Their bytes.", self._bytes),
            ("stale_files", "Those of them that wait for more than ten minutes, or are dated ahead.", self._stale),
        ):
            yield GaugeMetricFamily(f"inflight_tables_{name}", text, value)


class TransferMetrics:
    """Of an upload or a download, which `name` tells. figures: a loop.Figures."""

    def __init__(self, figures, name):
        self._figures, self._name = figures, name

    def collect(self):
        figures, name = self._figures, f"inflight_{self._name}"
        waiting = list(figures.waiting.values())
        for what, text, value in (
            ("files", "Landing files moved.", figures.files),
            ("bytes", "Their bytes.", figures.bytes),
            ("errors", "Failures, of the storage, the network or the disk.", figures.errors),
        ):
            yield CounterMetricFamily(f"{name}_{what}", text, value)
        for what, text, value in (
            ("waiting_files", "Landing files that were seen and not yet moved.", len(waiting)),
            ("waiting_bytes", "Their bytes.", sum(waiting)),
            (
                "moved_timestamp_seconds",
                "When one was moved, in s since 1970; 0: none since the start.",
                figures.moved_at,
            ),
        ):
            yield GaugeMetricFamily(f"{name}_{what}", text, value)
