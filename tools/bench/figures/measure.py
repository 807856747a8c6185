"""The measurements: one function for each part of the result."""

import contextlib
import secrets
import statistics
from dataclasses import dataclass, field
from functools import partial

from inflight_tools.boards.build.bundle import deployed_name
from inflight_tools.output import log
from tools.bench.figures import littlefs, peers
from tools.bench.figures.run import OURS, Failed, on_cpython

MODULES = "core client journal_core receiving handlers flash mqtt5_core websocket aio consumers"
ROWS = {  # name: (QoS, TCP_NODELAY, round trip in ms, messages in flight)
    "qos0_default": (0, 0, 0, 1),
    "qos0_nodelay": (0, 1, 0, 1),
    "qos1_default": (1, 0, 0, 1),
    "qos1_nodelay": (1, 1, 0, 1),
    "qos1_trip20": (1, 1, 20, 20),
}
JOURNALS = ("bytes", "pages")  # kinds of flash: the unit of programming
_SMALLEST_S = 20  # of a client that runs out of heap and hangs
_RECORD = 89  # bytes of topic and payload
_KEPT = ("import", "journal", "client")  # heap that stays allocated
_MORE_RUNS = 3
_ON_CPYTHON = {"Inflight": "ours_level_5", "Paho": "paho_level_5"}


@dataclass(frozen=True)
class Effort:
    messages: int = 200  # for the count of allocations
    round: dict = field(default_factory=lambda: {0: 4000, 1: 1000})  # messages of a round, by QoS
    rounds: int = 5
    runs: int = 3  # of each contender, alternating
    trip_s: float = 1.0  # duration of a round with a round-trip time
    trips: tuple = (0, 1, 2, 5, 10, 20, 50, 100, 200)  # round-trip times of the plot, ms
    windows: tuple = (1, 8, 20)
    wear: int = 3000  # messages for the flash wear
    sizes: tuple = (32, 64, 128, 256, 512, 1024, 2048, 4000)  # of the messages of the plot
    heap: int = 256  # bytes between two heaps that are tried


FULL = Effort()
TINY = Effort(
    messages=20,
    round={0: 50, 1: 20},
    rounds=2,
    runs=1,
    trip_s=0.02,
    trips=(0, 5),
    windows=(1, 8),
    wear=60,
    sizes=(64, 512),
)


def _attempt(name, measured, *args):
    """What measured() returns of contender `name`. Where another client than ours fails, {"failed": why} instead: the
    others are still measured."""
    try:
        return measured(*args)
    except Failed as e:
        if name.startswith("ours"):
            raise
        log(str(e))
        return {"failed": e.reason}


def failure(found):
    """Why there are no figures in `found`, a part of the result; None if there are some."""
    return found.get("failed") if isinstance(found, dict) else None


def _journal():
    """A new file, and with it a new session: a script names it so, too. It lies in the folder in which scripts run: the
    path is held in the heap, and is to cost everywhere the same."""
    return f"journal-{secrets.token_hex(4)}"


def costs(code, broker, contenders, effort, rom=False):
    """Heap of each contender: {name: {import, client, publish_0, ...}}."""
    return {name: _attempt(name, _costs, code, broker, name, effort, rom) for name in contenders}


def _costs(code, broker, name, effort, rom):
    # Where something on the stack looks like a reference to a module that was given back, that stays. The least of some
    # runs is without that.
    counts = effort.messages, *[1] * _MORE_RUNS
    found = [code.run("costs", name, broker, messages, _journal(), rom=rom) for messages in counts]
    return found[0] | {row: min(one[row] for one in found) for row in _KEPT}


def at_level_5_on_cpython(port, effort):
    """{name: {client, publish: bytes; rows: messages/s}}"""
    # In processes of their own: what was imported for one must not be there for the other.
    found = {name: on_cpython("memory", driver, port) for name, driver in _ON_CPYTHON.items()}
    for row, (qos, window) in {"qos0": (0, 1), "qos1": (1, 1), "qos1_window20": (1, 20)}.items():
        words = qos, 1, 0, window, effort.round[1], effort.rounds, ",".join(_ON_CPYTHON.values())
        for name, samples in zip(found, zip(*on_cpython("rates", port, *words), strict=True), strict=True):
            found[name][row] = statistics.median(samples)
    return found


def of_level_4(code, port, effort):
    """{client: {row: share of our rate at level 4}}, of clients that take turns in one process."""
    shares = {}
    for row, (qos, nodelay, trip, window) in ROWS.items():
        n = max(1, _count(effort, qos, trip, window) // (1 if trip else 4))
        rounds = 2 if trip else 4 * effort.rounds
        pairs = []
        for _ in range(effort.runs):
            pairs += code.run("rates", port, qos, nodelay, trip, window, n, rounds, "ours,ours_level_5")
        shares[row] = statistics.median(level_5 / level_4 for level_4, level_5 in pairs)
    return {"ours": dict.fromkeys(ROWS, 1), "ours_level_5": shares}


def modules(code):
    """{module: {mpy: bytes of the file, heap: bytes of its import, rom: heap of its import with the code in ROM}}."""
    names = {deployed_name(f"inflight.{name}").partition(".")[2]: name for name in MODULES.split()}
    heap, rom = (code.run("modules", " ".join(names), rom=rom) for rom in (False, True))
    return {
        names.get(module, module): {"mpy": size, "heap": heap.get(module, ""), "rom": rom.get(module, "")}
        for module, size in sorted(code.sizes[OURS].items())
    }


def rates(code, port, contenders, effort):
    """Throughput compared with the ceiling, medians: {name: {row: {ceiling, rate, share}}}. Contenders alternate. One
    that fails in a row is not started again: it may hang each time."""
    found = {name: {} for name in contenders}
    failed = {}
    for row, (qos, nodelay, trip, window) in ROWS.items():
        n = _count(effort, qos, trip, window)
        rounds = 2 if trip else effort.rounds
        samples = {name: [] for name in contenders}
        for _ in range(effort.runs):
            for name in contenders:
                if name not in failed:
                    words = port, qos, nodelay, trip, window, n, rounds, f"raw,{name}"
                    pairs = _attempt(name, code.run, "rates", *words)
                    if failure(pairs):
                        failed[name] = pairs
                    else:
                        samples[name] += pairs
        for name in contenders:
            found[name][row] = failed.get(name) or _median(samples[name])
    return found


def _count(effort, qos, trip, window):
    # With a round-trip time the duration decides: at least two whole windows.
    return max(2, int(effort.trip_s * 1000 / trip)) * window if trip else effort.round[qos]


def _median(pairs):
    return {
        "ceiling": statistics.median(ceiling for ceiling, _ in pairs),
        "rate": statistics.median(rate for _, rate in pairs),
        "share": statistics.median(rate / ceiling for ceiling, rate in pairs),
    }


def trips(code, port, contenders, effort):
    """Messages/s of QoS 1 by round-trip time: {line: [[ms, rate], ...]}. The line of a client that fails ends there."""
    lines = {}
    left = list(contenders)
    for trip in effort.trips:
        for name in [*left]:
            for window in effort.windows if name == "ours" else effort.windows[-1:]:
                n = _count(effort, 1, trip, window)
                pairs = _attempt(name, code.run, "rates", port, 1, 1, trip, window, n, 1, f"raw,{name}")
                if failure(pairs):
                    left.remove(name)
                    continue
                found = _median(pairs)
                label = peers.name_of(name) + (f", window {window}" if name == "ours" else "")
                lines.setdefault(label, []).append([trip, found["rate"]])
                if name == "ours":
                    lines.setdefault(f"ceiling, window {window}", []).append([trip, found["ceiling"]])
    return lines


def smallest(code, broker, contenders, effort, rom=False):
    """{name: {smallest: bytes of the smallest heap with which everything works}}. Ours works with each of up to 8 KB
    more, too: where pieces lie changes with the heap's size, so one may work by luck. The others need not: some hang
    now and then."""
    return {name: _attempt(name, _smallest, code, broker, name, effort, rom) for name in contenders}


def _smallest(code, broker, name, effort, rom):
    low, high = 0, 262_144
    run = partial(code.run, "smallest", name, broker, rom=rom, timeout=_SMALLEST_S)

    def works(heap):
        with contextlib.suppress(Failed):
            return run(_journal(), heap=heap)
        return False

    run(_journal(), heap=high)  # or it fails with any heap
    while high - low > effort.heap:
        middle = (low + high) // (2 * effort.heap) * effort.heap
        low, high = (low, middle) if works(middle) else (middle, high)
    tried = high
    while name.startswith("ours") and tried < high + 8192:
        tried += effort.heap
        high = high if works(tried) else tried + effort.heap
    return {"smallest": high}


def wear(code, port, effort):
    """Flash wear of a message: [{way, kind, qos, programs, programmed, erases[, record]}]."""
    found = []
    for kind in JOURNALS:
        for qos in (0, 1, 2):
            cost = code.run("wear", port, qos, kind, _RECORD, effort.wear)
            found.append({"way": OURS, "kind": kind, "qos": qos, **cost})
    for way in littlefs.STRATEGIES:
        for kind in littlefs.PROGRAM:
            cost = littlefs.measure(way, kind, _RECORD, min(effort.wear, 1000))
            found.append({"way": way, "kind": kind, "qos": 1, **cost})
    return found


def wear_by_size(code, port, effort):
    """Bytes erased per byte of message, by its size, on an RP2040: {way: [[size, bytes], ...]}."""
    lines = {way: [] for way in ("Inflight", *littlefs.STRATEGIES)}
    for size in effort.sizes:
        # Enough messages to fill the ring several times: one erase more or less must not matter.
        n = min(effort.wear, max(60, 8 * 65536 // size))
        cost = code.run("wear", port, 1, "pages", size, n)
        lines["Inflight"].append([size, cost["erases"] * littlefs.BLOCK / size])
        for way in littlefs.STRATEGIES:
            cost = littlefs.measure(way, "pages", size, min(n, 300))
            lines[way].append([size, cost["erases"] * littlefs.BLOCK / size])
    return lines
