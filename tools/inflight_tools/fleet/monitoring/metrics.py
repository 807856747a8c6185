"""The metrics of `collect`, `tables`, `upload`, `download` and `serve`, and the HTTP server that Prometheus asks for
those of the first four."""

import contextlib
import os

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from inflight_tools.fleet.judgement import figures
from inflight_tools.fleet.monitoring.address import address

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

    def collect(self):
        counted = self._collector.counters
        counters = [(name, text, getattr(counted, attribute)) for name, attribute, text in _COUNTERS]
        counters.append(("landing_files", "Landing files finished.", self._collector.files))
        acknowledged = "When messages were last acknowledged, in s since 1970; 0: not since the start."
        gauges = [
            ("connected", "Whether the broker accepts the collector.", int(self._collector.connected)),
            ("acknowledged_timestamp_seconds", acknowledged, counted.acknowledged_at),
        ]
        with contextlib.suppress(OSError):  # the folder is gone, which `write_errors` counts
            disk = os.statvfs(self._disk)
            free = disk.f_bavail * disk.f_frsize
            gauges.append(("disk_free_bytes", "Bytes that are free for landing files.", free))
        return _families("collector", counters, gauges, collector=self._name)


def _families(source, counters, gauges, **labels):
    """Yields the metrics inflight_<source>_<name>, which have these labels. counters, gauges: (name, text, value) of
    each."""
    for family, given in ((CounterMetricFamily, counters), (GaugeMetricFamily, gauges)):
        for name, text, value in given:
            metric = family(f"inflight_{source}_{name}", text, labels=list(labels))
            metric.add_metric(list(labels.values()), value)
            yield metric


def _gauge(name, text, label, values):
    """The metric inflight_fleet_<name>. values: {what the label says: value}"""
    metric = GaugeMetricFamily(f"inflight_fleet_{name}", text, labels=[label])
    for told, value in values.items():
        metric.add_metric([told], value)
    return metric


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
        counters = (
            ("batches", "Micro-batches with deliveries.", self._batches),
            ("deliveries", "Deliveries in them, repetitions included.", self._deliveries),
            ("batch_seconds", "Seconds that they took.", self._seconds),
        )
        gauges = (
            ("last_batch_seconds", "Seconds that the last one took.", self._last),
            ("last_batch_timestamp_seconds", "When it ended, in s since 1970; 0: none since the start.", self._last_at),
            ("unread_files", "Landing files that are in no finished batch.", self._files),
            ("unread_bytes", "Their bytes.", self._bytes),
            ("stale_files", "Those of them that wait for more than ten minutes, or are dated ahead.", self._stale),
        )
        return _families("tables", counters, gauges)


class FleetMetrics:
    """Of the facts of a fleet: by group of devices, never by device, so that a large fleet has as few of them. behind:
    how many collectors are. readings: those that an operator has named, as facts.last_readings() returns them."""

    def __init__(self, facts, behind, readings=()):
        self._facts, self._behind, self._readings = facts, behind, readings

    def collect(self):
        facts = self._facts
        by_group = (
            ("devices", "Devices that are known.", "devices"),
            ("silent_devices", "Devices that have sent nothing for much longer than usual.", "silent"),
            ("nearly_full_journals", "Devices whose journal is nearly full.", "nearly_full"),
            ("lost_messages", "Messages that were lost, also by age only. It falls if one comes after all.", "lost"),
            ("dead_letters", "Messages that could not be read.", "dead_letters"),
        )
        for name, text, key in by_group:
            yield _gauge(name, text, "group", {one["group"]: one[key] for one in facts["groups"]})
        least = "The least time for which a journal of the devices holds what they publish."
        holds = {one["group"]: one["holds_s"] for one in facts["groups"] if one["holds_s"] is not None}
        yield _gauge("journal_holds_seconds", least, "group", holds)
        told = "Messages that devices gave up, by the cause that they count."
        yield _gauge("given_up_messages", told, "cause", facts["gave_up"])
        judged = "What is judged of the fleet, as the report and `check` do; all is proved if each is 0."
        yield _gauge("judged", judged, "figure", figures(facts))
        late = "Collectors that have not shown for ten minutes that they have received all."
        made = "When these figures were computed, in s since 1970."
        gauges = (("collectors_behind", late, self._behind), ("timestamp_seconds", made, facts["made"]))
        yield from _families("fleet", (), gauges)
        labels = ["device", "name", "unit"]
        metric = GaugeMetricFamily("inflight_reading", "The last reading within a day.", labels=labels)
        for one in self._readings:
            metric.add_metric([one[label] for label in labels], one["value"])
        yield metric


class TransferMetrics:
    """Of an upload or a download, which `name` tells. figures: a loop.Figures."""

    def __init__(self, figures, name):
        self._figures, self._name = figures, name

    def collect(self):
        figures = self._figures
        waiting = list(figures.waiting.values())
        counters = (
            ("files", "Landing files moved.", figures.files),
            ("bytes", "Their bytes.", figures.bytes),
            ("errors", "Failures, of the storage, the network or the disk.", figures.errors),
        )
        moved = "When one was moved, in s since 1970; 0: none since the start."
        gauges = (
            ("waiting_files", "Landing files that were seen and not yet moved.", len(waiting)),
            ("waiting_bytes", "Their bytes.", sum(waiting)),
            ("moved_timestamp_seconds", moved, figures.moved_at),
        )
        return _families(self._name, counters, gauges)
