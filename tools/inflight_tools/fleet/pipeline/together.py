"""Collector and Spark as child processes, and one line that tells how they do."""

import contextlib
import json
import subprocess
import threading
import time

from rich.live import Live
from rich.text import Text

from inflight_tools.visible import visible

_REFRESH_S = 0.5
_COUNT_S = 10  # between counts of landing files: Spark's list of those that it has read grows


class Status:
    """What the children told last, as one line. waiting: a function that returns how many landing files are in no
    batch."""

    def __init__(self, waiting):
        self._waiting, self._files, self._next_count = waiting, 0, time.monotonic()
        self._collector, self._batch, self._deliveries = None, None, 0

    def tell(self, line):
        """Takes a line of a child's standard output. Returns False if it is no report of a collector or a batch."""
        try:
            told = json.loads(line)
        except ValueError:
            return False
        if not isinstance(told, dict) or not {"messages", "batch"} & told.keys():
            return False
        if "messages" in told:
            self._collector = told
        else:
            self._batch = told
            self._deliveries += told["deliveries"]
        return True

    def line(self):
        parts = [self._collected(), self._written(), self._landed()]
        return Text(" · ".join(parts), style="bold", no_wrap=True, overflow="ellipsis")

    def _landed(self):
        if time.monotonic() >= self._next_count:
            self._files, self._next_count = self._waiting(), time.monotonic() + _COUNT_S
        return f"{self._files:,} landing {'file waits' if self._files == 1 else 'files wait'}"

    def _collected(self):
        told = self._collector
        if told is None:
            return "collector starts"
        connected = "connected" if told["connected"] else "not connected"
        rate, lag_ms = told["messages_s"], told["lag_ms"]["mean"]
        return f"{connected}: {told['messages']:,} messages, {rate:,.0f}/s, lag {lag_ms:.0f} ms"

    def _written(self):
        told = self._batch
        if told is None:
            return "no batch yet"
        return f"batch {told['batch']:,}: {told['seconds']:.1f} s, {self._deliveries:,} deliveries in all"


def _read(stream, take):
    for line in stream:
        take(line.rstrip("\r\n"))


def run(commands, status, console, stopping):
    """Runs the `commands` until one of them ends or `stopping` is set, then ends all of them. Returns the worst exit
    status. With a terminal they must write reports as lines of JSON to their standard output: these become the last
    line, which is updated, below what they say. Without one everything is a plain line."""
    shown = console.is_terminal
    pipe = subprocess.PIPE if shown else None
    how: dict = {"stdout": pipe, "stderr": pipe, "text": True, "errors": "replace", "start_new_session": True}
    children = [subprocess.Popen(words, **how) for words in commands]

    def say(line):
        console.print(Text.from_ansi(line), soft_wrap=True, highlight=False)

    def told(line):
        if not status.tell(line):
            say(visible(line))

    streams = [one for child in children for one in ((child.stdout, told), (child.stderr, say))] if shown else []
    readers = [threading.Thread(target=_read, args=stream, daemon=True) for stream in streams]
    live = Live(get_renderable=status.line, console=console, refresh_per_second=1 / _REFRESH_S)
    with live if shown else contextlib.nullcontext():
        for reader in readers:
            reader.start()
        while all(child.poll() is None for child in children) and not stopping.wait(0.2):
            pass
        for child in children:
            child.terminate()
        worst = max(abs(child.wait()) for child in children)
        for reader in readers:
            reader.join()
    return worst
