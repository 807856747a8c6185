"""The command behind `make soak`."""

import contextlib
import random
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

import typer
from rich.console import Console

from tools.demo.sensors import Fleet
from tools.demo.subscriber import Subscriber
from tools.patience import Patience
from tools.peers.mosquitto import Mosquitto
from tools.reference.oracle import judge
from tools.soak import day
from tools.soak.fleet import LiveFleet, more_files
from tools.soak.proxy import KINDS
from tools.soak.result import Row, table_of

_NO_PROGRESS_S = 100  # settle() ends after so long without progress
_FIRMWARE = 20  # MicroPython processes with the firmware
_HOURS = 24  # on the virtual clock


class Soak:
    """Devices on the real clock, and the faults that they meet."""

    def __init__(self, console, broker, watcher, fleet, seconds):
        self._console = console
        self._broker, self._watcher = broker, watcher
        self._fleet = fleet
        self._seconds = seconds
        self._began = time.monotonic()

    def say(self, what):
        self._console.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/dim]  {what}", highlight=False)

    def _until(self, part):
        """Waits until that part of the time is over, and reports progress."""
        end = self._began + self._seconds * part
        while time.monotonic() < end:
            time.sleep(min(15, max(0, end - time.monotonic())))
            seen = len(self._watcher.counts())
            self.say(f"{self._fleet.ask(self._fleet.accepted)} accepted by virtual devices, {seen} delivered of all")

    def run(self):
        away = min(30, self._seconds / 8)
        self._until(0.25)
        self._restart(0)
        self._until(0.5)
        self._restart(away)
        self._until(0.75)
        self._fleet.ask(self._fleet.outage)
        self.say(f"every access point is off for {away:.0f} s")
        time.sleep(away)
        self._fleet.ask(self._fleet.join)
        self._until(1)
        self._fleet.ask(self._fleet.clear)
        self.say("no more faults; waiting for the last messages")

    def _restart(self, away):
        # mosquitto may deliver a QoS 2 message twice to a client that is connected while it restarts.
        self._watcher.leave()
        self._broker.stop()
        time.sleep(away)
        self._broker.start()
        self._watcher.join()
        self.say(f"broker restarted, after {away:.0f} s" if away else "broker restarted")

    def settle(self, accepted):
        """Waits until all messages have arrived, or nothing changes any more. `accepted`: by the real firmware."""
        patience = Patience(_NO_PROGRESS_S)
        while True:
            seen = self._watcher.counts()
            waiting = sum(not seen[device, seq] for device, seq, _ in accepted) + self._fleet.ask(self._fleet.unsettled)
            if not waiting or patience.over((waiting, len(seen))):
                return
            time.sleep(0.5)


def _firmware(accepted, seen):
    """The Row of the real firmware. Its sequence numbers have gaps, since other messages use some."""
    lost, twice, repeated = judge({(device, seq): qos for device, seq, qos in accepted}, seen)
    devices = len({device for device, _, _ in accepted})
    return Row(devices, accepted=len(accepted), lost=len(lost), twice=len(twice), repeated=len(repeated))


def _quarters(values):
    """The medians of the second and the last quarter; in the first one buffers still grow."""
    n = len(values) // 4
    return statistics.median(values[n : 2 * n]), statistics.median(values[-n:])


def _memory(console, heaps):
    least = [_quarters(values) for values in heaps.values() if len(values) >= 8]
    if not least:
        return []
    early, late = min(e for e, _ in least), min(late for _, late in least)
    console.print(f"heap free on MicroPython, the least of {len(least)}: {early:.0f} bytes, then {late:.0f}")
    worst = min(late - early for early, late in least)
    return [f"a device's heap shrank by {-worst:.0f} bytes"] if worst < -2048 else []


def _virtual(console, devices, seed):
    began = time.monotonic()
    result = day.simulate(_HOURS, devices, 30, seed)
    title = f"{_HOURS} hours of {devices} devices on a virtual clock, in {time.monotonic() - began:.0f} s"
    console.print(table_of(title, result.rows))
    early, late = result.growth()
    console.print(
        f"{result.broker_restarts} broker restarts, {result.outages} outages of access points, "
        f"{result.device_restarts} devices restarted, {result.cuts} of them by a power cut; commands: "
        f"{result.commands.accepted} sent, {result.commands.lost} lost, {result.commands.twice} twice\n"
        f"Python's memory after two hours: {early} blocks, in the last quarter at most {late}"
    )
    return result.problems()


def _real(console, folder, devices, seconds, seed):
    with contextlib.ExitStack() as stack:
        broker = stack.enter_context(Mosquitto(folder / "broker", "max_inflight_messages 2000"))
        watcher = stack.enter_context(Subscriber(broker.port))
        fleet = LiveFleet(broker.port, range(devices), max(2, devices / 250), seed)
        ports = fleet.ports  # sensors with the real firmware use the kinds of network in turn
        links = [(ports[i % len(ports)], 1 + i // len(ports) % 2) for i in range(_FIRMWARE)]
        sensors = stack.enter_context(Fleet(folder, links, 1000))
        soak = Soak(console, broker, watcher, fleet, seconds)
        soak.run()
        accepted = sensors.accepted()  # they keep publishing; later messages do not count
        soak.settle(accepted)
        seen = watcher.counts()
        rows = fleet.end(seen)
        rows["all, real firmware"] = _firmware(accepted, seen)
        console.print(table_of(f"{devices} virtual devices, {_FIRMWARE} with firmware, {seconds:.0f} s", rows))
        problems = _memory(console, watcher.heap)
    return problems + [problem for kind, row in rows.items() for problem in row.problems(kind)]


def main(
    devices: int = typer.Option(1000, min=14, max=5000, help="virtual devices on the real clock"),
    minutes: float = typer.Option(5, min=0.5, help="duration on the real clock"),
    seed: int = typer.Option(None, help="repeat the same faults"),
):
    """Runs devices in every kind of bad network, on the real clock with mosquitto and for a day on a virtual clock.
    Exit status 0 only if no accepted message was lost, no QoS 2 message was delivered twice, no device is stuck, and
    memory does not grow."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # runs the clean-up, which ends broker and sensors
    console = Console(width=None if sys.stdout.isatty() else 140)
    seed = random.randrange(1 << 32) if seed is None else seed
    console.print(f"seed {seed}", highlight=False)
    if more_files() < 3 * devices + 200:
        console.print(f"this machine allows {more_files()} open files: too few for {devices} devices")
        raise typer.Exit(2)
    folder = Path(tempfile.mkdtemp(prefix="inflight-soak-"))
    try:
        problems = _real(console, folder, devices, minutes * 60, seed)
    except RuntimeError as e:
        problems = [str(e)]
    problems += _virtual(console, 2 * len(KINDS), seed)
    if problems:
        console.print(f"[bold red]FAILED[/bold red]: {'; '.join(problems)}. Files: {folder}", highlight=False)
        raise typer.Exit(1)
    console.print("[bold green]No message lost, no QoS 2 message twice, no device stuck, no memory growth.[/]")
    shutil.rmtree(folder)


if __name__ == "__main__":
    typer.run(main)
