"""Memory and processor time of the processes that a process of ours started, from /proc."""

import os
import threading
from pathlib import Path


def _children():
    """{parent: its children} of all processes."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
        found.setdefault(parent, []).append(int(path.parent.name))
    return found


def _descendants(pid):
    children, found, rest = _children(), [], [pid]
    while rest:
        found += children.get(rest[-1], ())
        rest += children.get(rest.pop(), ())
    return found


def processor_s():
    """Seconds of processor that the processes below this one have used, those that have ended included."""
    ticks = 0
    for pid in _descendants(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(field) for field in fields[11:15])  # its own, and those of children that it has seen end
    return ticks / os.sysconf("SC_CLK_TCK")


def _peak(pid):
    """(name, peak of the resident memory in bytes)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return "", 0
    fields = dict(text.split(":", 1) for text in status.splitlines() if ":" in text)
    return fields["Name"].strip(), int(fields.get("VmHWM", "0 kB").split()[0]) * 1024


class Peaks:
    """While it is entered, what the JVM and the largest Python worker below this process took at most, in bytes."""

    def __init__(self):
        self.jvm = self.worker = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _look(self):
        for pid in _descendants(os.getpid()):
            name, peak = _peak(pid)
            if name == "java":
                self.jvm = max(self.jvm, peak)
            elif name.startswith("python"):
                self.worker = max(self.worker, peak)

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
