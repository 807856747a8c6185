"""Shows a board's console and its messages at the broker live, in one stream. Sends nothing to the board."""

import contextlib
import json
import queue
import time
from functools import partial

from rich.console import Console
from rich.text import Text

from inflight_tools import options
from inflight_tools.boards.build.bundle import translate
from inflight_tools.boards.connected import running_port
from inflight_tools.boards.device.console import Console as BoardConsole
from inflight_tools.boards.device.watch import Watch
from inflight_tools.broker import broker_of_settings
from inflight_tools.fleet.lines.gathered import expanded
from inflight_tools.fleet.lines.parse import Topics, parse
from inflight_tools.output import failing
from inflight_tools.payload import fields_of
from inflight_tools.settings import settings
from inflight_tools.signals import on_stop
from inflight_tools.visible import visible

_STYLES = {"console": "default", "status": "bold green", "health": "cyan", "reply": "magenta", "monitor": "dim"}
_SHOWN = ("status", "health", "telemetry", "reply/#", "actuator/+", "log", "release")  # of what a device publishes
_WIDTH = len("telemetry")
_LATE_S = 60  # readings that are older have their time
_TOPICS = Topics("-")
_RATIO = "/"  # SenML's unit of what has none


def flat(fields, above=""):
    """Yields "name=value" of a message, nested names as "journal.live"; empty and 0 values are omitted."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{name}.")
        elif value:
            yield f"{above}{name}={value}"


def describe(payload, kind=""):
    """The lines that show a message: gathered readings have one for each row. kind: its topic below the device's."""
    try:
        if kind == "telemetry":
            return readings(payload, time.time())
        fields = fields_of(payload)
        if kind.startswith("reply/"):
            outcome = "ok" if fields.pop("ok", None) is True else "refused"
            return [" ".join([kind[6:], outcome, *flat(fields)])]
        return [" ".join([*([kind.partition("/")[2]] if "/" in kind else []), *flat(fields)])]
    except (ValueError, RecursionError):  # flat() may find it too deep as well
        return [payload.decode(errors="replace")]


def _rows(payload, now):
    """Yields (the readings of a row, seconds from the boot to a row without a time) of a message, as the pipeline reads
    them; see records()."""
    at = {"at": int(now * 1000), "by": "-", "topic": "-/-/telemetry", "qos": 0, "dup": False, "retain": False}
    line = json.dumps(at | {"text": payload.decode()}, separators=(",", ":")).encode()
    for row in [parse(one, _TOPICS) for one in expanded(line)]:
        found = [
            (
                name,
                "" if unit in (None, _RATIO) else unit,
                next((value for value in values[:4] if value is not None), ""),
                taken / 1e6 if clock == "device" else None,
            )
            for name, unit, taken, clock, *values in row["records"] or ()
        ]
        yield found, row["up"]


def records(payload, now):
    """The readings of each row of a message: [(name, unit or "", value, when it was taken by the device's clock in s
    since 1970, or None)]. now: s since 1970."""
    return [found for found, _ in _rows(payload, now)]


def spelled(name, unit, value):
    """A reading: "temperature=21.5 Cel"."""
    if isinstance(value, float):
        value = f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.7g}"
    elif isinstance(value, bool):
        value = str(value).lower()
    return f"{name}={value} {unit}".rstrip()


def readings(payload, now):
    """A line for each row of a message: its readings, and when they were taken if there are several rows or that is not
    just now. ValueError if there are none."""
    rows = [row for row in _rows(payload, now) if row[0]]
    lines = []
    for row, up in rows:
        words = [spelled(*record[:3]) for record in row]
        taken = row[-1][3]
        if taken is not None and (len(rows) > 1 or now - taken > _LATE_S):
            words.append(time.strftime("(taken %Y-%m-%d %H:%M:%SZ)", time.gmtime(taken)))
        elif up is not None and len(rows) > 1:
            words.append(f"(taken {up:g} s after the boot)")
        lines.append("  ".join(words))
    if not lines:
        raise ValueError("no readings")
    return lines


class Stream:
    """Collects events of console and broker, with their times."""

    def __init__(self, device=None):
        self._device = device
        self._ended = None
        self._events = queue.SimpleQueue()

    def add(self, source, text):
        self._events.put((time.strftime("%H:%M:%S"), source, text))

    def message(self, device, kind, payload, retained):
        """For Watch(on_message=...)."""
        who = "" if device == self._device else f"{device}: "
        for line in describe(payload, kind):
            self.add(kind.partition("/")[0], f"{who}{line}{' (retained)' if retained else ''}")

    def console(self, line):
        """For BoardConsole: translates function names in tracebacks to the names of the source."""
        self.add("console", translate(line))

    def _next(self):
        while True:
            with contextlib.suppress(queue.Empty):
                return self._events.get(timeout=0.5)  # on Windows nothing interrupts a wait without an end

    def end(self, why):
        """For Watch(on_end=...)."""
        self._ended = why
        self._events.put(None)

    def show(self, console):
        """Prints events until Ctrl-C. Raises OSError if nothing of the broker can come any more."""
        with on_stop(lambda: self._events.put(None)):  # not by KeyboardInterrupt, which a callback could swallow
            while event := self._next():
                at, source, text = event
                shown = visible(text.expandtabs())
                line = Text.assemble((at, "dim"), f"  {source:{_WIDTH}}  ", (shown, _STYLES.get(source, "default")))
                console.print(line, soft_wrap=True)
        if self._ended:
            raise OSError(self._ended)


def main(
    port: options.PortFound = None,
    config: options.ConfigOrNone = None,
    tls: options.TlsOptions = None,
    broker: options.BrokerHere = None,
):
    """Shows the console of the board that is connected, or of that on --port, and with --config what a board publishes,
    readings and replies to commands among it, until Ctrl-C; the board keeps running. With --config alone it shows no
    console."""
    console = Console()
    interrupted = contextlib.suppress(KeyboardInterrupt)
    with interrupted, failing(ValueError, OSError, console=console), contextlib.ExitStack() as stack:
        if not config:
            port = port or running_port()
        stream = Stream()
        if chosen := settings(config, tls.tls, dry=False):
            place = broker_of_settings(chosen, broker, tls.tls)
            stream = Stream(place.device)
            watch = stack.enter_context(Watch(place, stream.message, partial(stream.add, "monitor"), stream.end))
            watch.follow(place.device or "+", _SHOWN)
        if port:
            stack.enter_context(BoardConsole(port, stream.console, partial(stream.add, "monitor")))
        stream.show(console)
