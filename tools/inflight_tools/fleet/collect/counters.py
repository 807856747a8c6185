"""The counters of a collector."""

import contextlib
import json
import os
import time
from pathlib import Path

from inflight_tools.cache import write_atomic


class Counters:
    """Counts since the start. Rate and lag of a report: since the report before.

    acknowledged_messages, lag_s: how many messages were acknowledged, and the sum of seconds from their receipt.
    acknowledged_at: when that was last, in s since 1970, 0 if never."""

    def __init__(self, name):
        self._name = name
        self._started = time.time()
        self.messages = self.bytes = self.batches = self.dup = self.truncated = 0
        self.reconnects = self.errors = 0
        self.acknowledged_messages, self.lag_s, self.acknowledged_at = 0, 0.0, 0.0
        self._start_interval()

    def _start_interval(self):
        self._interval_start, self._lag_max = time.monotonic(), 0.0
        self._before = self.messages, self.acknowledged_messages, self.lag_s

    def received(self, length, dup, truncated):
        """Counts a message with a payload of this length."""
        self.messages += 1
        self.bytes += length
        self.dup += dup
        self.truncated += truncated

    def acknowledged(self, received):
        """Counts a batch. `received`: when its messages arrived (time.monotonic()), in order."""
        now = time.monotonic()
        self.batches += 1
        self.lag_s += now * len(received) - sum(received)
        self.acknowledged_messages += len(received)
        self.acknowledged_at = time.time()
        self._lag_max = max(self._lag_max, now - received[0])

    def report(self, files, connected):
        """Returns all counters as a dict, and starts a new interval."""
        seconds = max(time.monotonic() - self._interval_start, 1e-3)
        totals = self.messages, self.acknowledged_messages, self.lag_s
        messages, acknowledged, lag_s = (total - before for total, before in zip(totals, self._before, strict=True))
        result = {
            "at": round(time.time(), 3),
            "by": self._name,
            "pid": os.getpid(),
            "since": round(self._started, 3),
            "connected": connected,
            "messages": self.messages,
            "messages_s": round(messages / seconds, 1),
            "bytes": self.bytes,
            "batches": self.batches,
            "batch": round(self.messages / self.batches, 1) if self.batches else 0,
            "lag_ms": {
                "mean": round(1000 * lag_s / acknowledged, 2) if acknowledged else 0,
                "max": round(1000 * self._lag_max, 2),
            },
            "dup": self.dup,
            "truncated": self.truncated,
            "files": files,
            "reconnects": self.reconnects,
            "errors": self.errors,
        }
        self._start_interval()
        return result


def sentence(figures):
    """A report in one line."""
    lag = figures["lag_ms"]
    return (
        f"{figures['messages']} messages, {figures['messages_s']:.0f}/s, batch {figures['batch']:.0f}, "
        f"lag {lag['mean']:.0f} ms (max {lag['max']:.0f}), {figures['dup']} DUP, {figures['files']} files, "
        f"{figures['reconnects']} reconnects, {figures['errors']} errors"
        f"{'' if figures['connected'] else ', not connected'}"
    )


def save(path, figures):
    """Writes the counters as JSON, atomically."""
    write_atomic(path, json.dumps(figures) + "\n")


def load(folder):
    """What each collector with landing files in `folder` has saved, by its name."""
    found = []
    for path in Path(folder).glob(".*.json"):
        with contextlib.suppress(OSError, ValueError):  # ValueError: not what save() writes
            figures = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(figures, dict) and {"at", "by", "lag_ms"} <= figures.keys():
                found.append(figures)
    return sorted(found, key=lambda figures: figures["by"])
