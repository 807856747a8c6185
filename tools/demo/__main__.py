"""The command behind `make demo`: a fleet of sensors, mosquitto, collector and Spark under power cuts and kills."""

import random
import shutil
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path

import typer
from rich.console import Console

from tools.demo.downstream import COLLECTOR, Downstream
from tools.demo.sensors import HEAP, ROOT, Fleet, names_of
from tools.demo.subscriber import NAME as SUBSCRIBER
from tools.demo.subscriber import Subscriber
from tools.patience import Patience
from tools.peers.mosquitto import Mosquitto, of_a_fleet
from tools.peers.network import Network
from tools.reference.oracle import judge
from tools.setup.common import CHECKOUT
from tools.shown import table

_PATIENCE_S = 300  # without any message that arrives, while journals are delivered
_CUTS_PER_S = 4
_INTERVAL_MS = 200  # between two readings of a sensor
_BROKER_RESTARTS = (1 / 3, 2 / 3)  # parts of the time
_NETWORK_CUTS = (0.2, 0.5, 0.8)
_COLLECTOR_KILLS = (0.25, 0.6)
_SPARK_KILLS = (0.4,)
REPORT = CHECKOUT / "build" / "demo-report.html"


def _parse_qos(text):
    levels = [int(part) for part in text.replace(",", " ").split() if part in ("1", "2")]
    if not levels or len(levels) != len(text.replace(",", " ").split()):
        raise typer.BadParameter('1, 2 or "1,2": QoS 0 messages may be lost')
    return levels


class Show:
    """Runs the fleet, causes faults, and reports progress."""

    def __init__(self, console, fleet, broker, network, subscriber, downstream, duration, cuts, seed):
        self._console = console
        self._fleet, self._broker, self._network, self._subscriber = fleet, broker, network, subscriber
        self._downstream = downstream
        self._duration, self._cuts = duration, cuts
        self._random = random.Random(seed)
        self._start = time.monotonic()
        due = [(part, self._restart_broker) for part in _BROKER_RESTARTS]
        due += [(part, self._cut_network) for part in _NETWORK_CUTS]
        due += [(part, partial(self._kill, "collector", downstream.collector)) for part in _COLLECTOR_KILLS]
        due += [(part, partial(self._kill, "Spark", downstream.spark)) for part in _SPARK_KILLS]
        self._due = [(duration * part, happen) for part, happen in due]
        self.restarts = 0

    def _now(self):
        return time.monotonic() - self._start

    def say(self, what):
        self._console.print(f"[dim]{self._now():5.1f} s[/dim]  {what}", highlight=False)

    def run(self):
        """Causes faults until the time is over and the power cuts are made."""
        step = self._duration / self._cuts
        report = 0
        next_cut = self._now()
        while not self._fleet.deaths and (self._now() < self._duration or self._fleet.cuts < self._cuts):
            for one in [one for one in self._due if one[0] <= self._now()]:
                self._due.remove(one)
                one[1]()
            if self._now() >= next_cut:
                next_cut = max(next_cut + step * self._random.uniform(0.2, 1.7), self._now() - 1)
                self._fleet.cut_one()
            if self._now() >= report:
                report = self._now() + 3
                self.progress()
            time.sleep(max(0.0, min(next_cut - self._now(), 0.02)))
        self._network.join()

    def _cut_network(self):
        self._network.cut()
        self._due.append((self._now() + self._random.uniform(0.5, 1.5), self._network.join))
        self.say("network cut")

    def _restart_broker(self):
        # mosquitto may deliver a QoS 2 message twice to a client that is connected while it restarts.
        self._subscriber.leave()
        self._broker.stop()
        time.sleep(self._random.uniform(0.2, 1.0))  # the outage itself
        self._broker.start()
        self._subscriber.join()
        self.restarts += 1
        self.say("broker restarted")

    def _kill(self, name, program):
        if not program.off():
            raise RuntimeError(f"the {name} ended by itself:\n{program.log()}")
        program.on()
        self.say(f"{name} killed, and started again")

    def progress(self):
        accepted, seen = self._fleet.accepted(), self._subscriber.counts()
        arrived = sum(1 for device, seq, _ in accepted if seen[device, seq])
        self.say(f"{self._fleet.cuts} power cuts, {len(accepted)} messages accepted, {arrived} delivered")

    def drain(self):
        """The sensors stop publishing and deliver their journals. Returns (device, sequence number) of all accepted
        messages, including those that a power cut kept out of accepted.log."""
        self.say("the power of all sensors is cut, and each delivers the messages in its journal")
        numbers = self._fleet.drain(_PATIENCE_S, self._subscriber.total)
        return {(device, seq) for device, next_seq in numbers.items() for seq in range(next_seq)}

    def settle(self, wanted):
        """Waits until subscriber and collector have received all of `wanted`, or nothing arrives any more."""
        self.say(f"{len(wanted)} messages accepted, waiting for the last of them")
        for received, pause in ((self._subscriber.counts, 0.1), (self._downstream.landed, 0.5)):
            patience = Patience(_PATIENCE_S)
            found = received()
            while not wanted <= set(found) and not patience.over(len(found)):
                time.sleep(pause)
                found = received()


def check_tables(accepted, facts, raw, measurements):
    """Returns a list of errors in the report and the tables, given the messages that devices accepted."""
    first = Counter((row["device"], row["seq"]) for row in raw if row["first"] and row["seq"] is not None)
    missing = [key for key in ((device, seq) for device, seq, _ in accepted) if not first[key]]
    rows = Counter((row["device"], row["seq"], row["place"]) for row in measurements)
    measured = {(device, seq) for device, seq, _ in rows}
    told = {(row["device"], row["seq"]) for row in raw if row["kind"] == "telemetry" and row["first"]}
    fleet = facts["fleet"]
    found = {
        "messages that a device accepted have no row": len(missing),
        "messages have two rows": sum(1 for n in first.values() if n > 1),
        "measurements have two rows": sum(1 for n in rows.values() if n > 1),
        "packs have no measurements": len(told - measured),
        "messages that the report does not count": max(0, len(accepted) - fleet["delivered"]),
        "numbers before the report's first message": fleet["before"],
    }
    found |= {f"{name} in the report": fleet[name] for name in _NONE}
    return [f"{n} {what}" for what, n in found.items() if n]


def _show_report(console, facts):
    fleet = facts["fleet"]
    rows = [(words, fleet[name]) for name, words in _TOLD.items()]
    if latency := fleet["latency_ms"]:
        rows.append(("latency " + " / ".join(latency), " / ".join(f"{ms / 1000:.1f} s" for ms in latency.values())))
    console.print(table("Figures of the report, from the tables", [("", "all"), *rows]))


_NONE = ("lost", "given_up", "on_way", "on_device", "guessed", "doubled", "dead_letters", "conflicts")  # each is 0
_TOLD = {
    "accepted": "messages accepted",
    "delivered": "in the tables",
    "on_device": "still in a journal",
    "on_way": "acknowledged, on the way",
    "lost": "acknowledged, lost",
    "given_up": "given up by a device",
    "doubled": "duplicate rows",
    "repeated": "repetitions removed",
    "measurements": "measurements",
    "dead_letters": "dead letters",
    "restarts": "restarts reported by a device",
}


def result(console, accepted, fleet, network, subscriber, restarts):
    seen = subscriber.counts()
    rows = {}
    for qos in sorted({q for _, _, q in accepted}):
        mine = {(device, seq): qos for device, seq, q in accepted if q == qos}
        lost, twice, repeated = judge(mine, seen)
        rows[qos] = {
            "accepted": len(mine),
            "delivered": len(mine) - len(lost),
            "lost": len(lost),
            "duplicated": len(twice) + len(repeated),
            "resent with DUP": network.repeated[qos],
        }
    names = ("accepted", "delivered", "lost", "duplicated", "resent with DUP")
    lines = [(name, *(row[name] for row in rows.values())) for name in names]
    console.print(table("Messages at a subscriber", [("", *(f"QoS {qos}" for qos in rows)), *lines]))
    console.print(
        f"power cuts survived: {fleet.cuts}   broker restarts: {restarts}   network cuts: {network.cuts}\n"
        "(QoS 1 is at least once: a duplicate there is allowed)",
        highlight=False,
    )
    problems = [f"{row['lost']} messages of QoS {qos} lost" for qos, row in rows.items() if row["lost"]]
    if rows.get(2, {}).get("duplicated"):
        problems.append(f"{rows[2]['duplicated']} messages of QoS 2 came twice")
    if subscriber.unreadable:
        problems.append(f"{len(subscriber.unreadable)} messages cannot be read, the first: {subscriber.unreadable[0]}")
    if any(len(epochs) > 1 for epochs in subscriber.epochs.values()):
        problems.append("a sensor lost its journal")
    if fleet.deaths:
        problems.append("a sensor exited unexpectedly: see its console.log")
    if not accepted:
        problems.append("nothing was accepted")
    return problems


def main(
    devices: int = typer.Option(20, min=1, max=200, help="virtual sensors"),
    duration: float = typer.Option(30.0, min=1, help="seconds with faults"),
    qos: str = typer.Option("1,2", help="QoS of the sensors in turn"),
    seed: int = typer.Option(None, help="repeats the faults of an earlier run"),
    report: Path = typer.Option(REPORT, help="the page to write"),
):
    """Runs virtual sensors, mosquitto, a collector and Spark; cuts power and network, restarts the broker, and kills
    collector and Spark. Exit status 0 only if no accepted message was lost, no QoS 2 message came twice, and each
    message is in the tables exactly once."""
    console = Console()
    levels = _parse_qos(qos)
    seed = random.randrange(1 << 32) if seed is None else seed
    folder = Path(tempfile.mkdtemp(prefix="inflight-demo-"))
    try:
        problems = _perform(console, folder, devices, duration, levels, seed, report)
    except RuntimeError as e:
        problems = [str(e)]
    if problems:
        console.print(f"[bold red]FAILED[/bold red]: {'; '.join(problems)}. Files: {folder}", highlight=False)
        raise typer.Exit(1)
    console.print("[bold green]Nothing was lost, no QoS 2 message came twice, each is in the tables once.[/bold green]")
    shutil.rmtree(folder)


def _perform(console, folder, devices, duration, levels, seed, report):
    cuts = max(100, round(duration * _CUTS_PER_S))
    users = (*names_of(devices), COLLECTOR, SUBSCRIBER)
    with (
        Mosquitto(folder / "broker", *of_a_fleet(folder / "broker", users)) as broker,
        Network(broker.port) as network,
        Subscriber(broker.port) as subscriber,
        Downstream(folder / "pipeline", broker.port, ROOT) as downstream,
        Fleet(folder, [(network.port, levels[i % len(levels)]) for i in range(devices)], _INTERVAL_MS, seed) as fleet,
    ):
        console.print(
            f"{devices} sensors, each a {fleet.interpreter} with {HEAP} of heap and {fleet.files} files of firmware;\n"
            f"mosquitto on 127.0.0.1:{broker.port}; {cuts} power cuts in {duration:g} s; seed {seed}",
            highlight=False,
        )
        show = Show(console, fleet, broker, network, subscriber, downstream, duration, cuts, seed)
        show.run()
        # The report counts a missing number as lost once a later one has arrived. So deliver all journals first.
        show.settle(show.drain())
        accepted = fleet.accepted()
        problems = result(console, accepted, fleet, network, subscriber, show.restarts)
        show.say("Spark processes the rest, and the report is made")
        facts = downstream.finish()
        show.say("the report is made")
        _show_report(console, facts)
        kept = f"collector killed: {downstream.collector.kills}   Spark killed: {downstream.spark.kills}"
        report.parent.mkdir(exist_ok=True)
        shutil.copy(downstream.folder / "report.html", report)
        console.print(f"{kept}   report: {report}", highlight=False)
        return problems + check_tables(accepted, facts, downstream.rows("raw"), downstream.rows("measurements"))


if __name__ == "__main__":
    typer.run(main)
