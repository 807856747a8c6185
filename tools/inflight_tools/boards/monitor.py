"""Shows a board's console and its messages at the broker live, in one stream. Sends nothing to the board."""

import contextlib
import queue
import time
from functools import partial

from rich.console import Console
from rich.text import Text

from inflight_tools import options
from inflight_tools.boards.bundle import translate
from inflight_tools.boards.device.console import Console as BoardConsole
from inflight_tools.boards.device.watch import Watch
from inflight_tools.broker import broker_of_settings
from inflight_tools.output import failing
from inflight_tools.payload import fields_of
from inflight_tools.settings import settings_given
from inflight_tools.signals import on_stop
from inflight_tools.visible import visible

_STYLES = {"console": "default", "status": "bold green", "health": "cyan", "monitor": "dim"}
_WIDTH = max(map(len, _STYLES))


def flat(fields, above=""):
    """Yields "name=value" of a message, nested names as "journal.live"; empty and 0 values are omitted."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{name}.")
        elif value:
            yield f"{above}{name}={value}"


def describe(payload):
    """A message in one line."""
    try:
        return " ".join(flat(fields_of(payload)))
    except (ValueError, RecursionError):  # flat() may find it too deep as well
        return payload.decode(errors="replace")


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
        self.add(kind, f"{who}{describe(payload)}{' (retained)' if retained else ''}")

    def console(self, line):
        """For BoardConsole: translates function names in tracebacks to those of the source."""
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


def _run(console, port, config, ca, cert, key, broker):
    if not port and not config:
        raise ValueError("nothing to show: --port /dev/ttyACM0 for the console, --config config.json for the broker")
    with contextlib.ExitStack() as stack:
        stream = Stream()
        if chosen := settings_given(config, ca, cert, key):
            place = broker_of_settings(chosen, broker, ca, cert, key)
            stream = Stream(place.device)
            watch = stack.enter_context(Watch(place, stream.message, partial(stream.add, "monitor"), stream.end))
            watch.follow(place.device or "+", ["status", "health"])
        if port:
            stack.enter_context(BoardConsole(port, stream.console, partial(stream.add, "monitor")))
        stream.show(console)


def main(
    port: options.PortOrNone = None,
    config: options.ConfigOrNone = None,
    ca: options.Ca = None,
    cert: options.Cert = None,
    key: options.Key = None,
    broker: options.Broker = None,
):
    """Shows the board's console, with --port, and its status and health messages, with --config, until Ctrl-C; the
    board keeps running."""
    console = Console()
    with contextlib.suppress(KeyboardInterrupt), failing(ValueError, OSError, console=console):
        _run(console, port, config, ca, cert, key, broker)
