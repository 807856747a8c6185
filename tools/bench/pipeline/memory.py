"""Memory and processor time of this process's descendants, from /proc."""

import os
import threading
from pathlib import Path


def _stat(pid):
    """(parent, start time, processor time in ticks); None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[1]), fields[19], int(fields[11]) + int(fields[12])


def _descendants():
    """{pid: its _stat()} of what this process has started, and of what that has."""
    stats = {int(path.name): _stat(path.name) for path in Path("/proc").glob("[0-9]*")}
    found, parents = {}, {os.getpid()}
    while parents:
        found |= {pid: stat for pid, stat in stats.items() if stat and stat[0] in parents}
        parents = {pid for pid, stat in found.items() if stat[0] in parents}
    return found


def peak(pid):
    """(name, peak resident set in bytes)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "", 0
    fields = dict(text.split(":", 1) for text in status.splitlines() if ":" in text)
    return fields["Name"].strip(), int(fields.get("VmHWM", "0 kB").split()[0]) * 1024


class Peaks:
    """A context manager. Watches this process's descendants: peak memory of the JVM and of the largest Python worker,
    in bytes, and the processor time of all."""

    def __init__(self):
        self.jvm = self.worker = 0
        self._used = {}  # ticks of each process, ended ones included
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def processor_s(self):
        """Processor time of all descendants, in seconds."""
        self._look()
        return sum(tuple(self._used.values())) / os.sysconf("SC_CLK_TCK")

    def _look(self):
        for pid, (_, started, ticks) in _descendants().items():
            self._used[pid, started] = ticks
            name, resident = peak(pid)
            if name == "java":
                self.jvm = max(self.jvm, resident)
            elif name.startswith("python"):
                self.worker = max(self.worker, resident)

    def _watch(self):
        while not self._stop.wait(0.5):
            self._look()

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        self._look()
