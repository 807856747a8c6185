"""The throughput of collector and Spark on this machine, and how costs grow: `make bench-pipeline`."""

import json
import multiprocessing
import os
import platform
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import typer

from inflight_tools import options
from inflight_tools.cache import write_atomic
from inflight_tools.output import log
from tools.bench.pipeline import collector, console, delay, history, stages
from tools.setup.common import CHECKOUT
from tools.shown import across, show

app = typer.Typer(pretty_exceptions_enable=False)


def _in_process(work, *args):
    """Runs work(*args) in a process and a JVM of its own, to start cold and to have peaks of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *args).result()


def _numbers(text, kind):
    try:
        found = [kind(word) for word in text.split(",") if word.strip()]
    except ValueError:
        found = [0]
    if any(number <= 0 for number in found):
        raise typer.BadParameter(f"{text}: numbers above 0, separated by commas")
    return found


def _machine():
    import pyspark

    return (
        f"{time.strftime('%Y-%m-%d')}: {os.cpu_count()} cores, load {os.getloadavg()[1]:.1f} from elsewhere at the "
        f"start, Python {platform.python_version()}, Spark {pyspark.__version__}"
    )


@app.command()
def main(
    millions: str = typer.Option("1", help="millions of measurement rows, separated by commas; a message has 3"),
    batches: int = typer.Option(60, "--history", min=0, help="micro-batches of one size"),
    few: int = typer.Option(100, "--small", min=0, help="micro-batches of few deliveries"),
    fleets: str = typer.Option("1000,100000,1000000", help="devices in the ledger, separated by commas"),
    messages: int = typer.Option(40_000, "--collector", min=0, help="messages of a run of the collector"),
    devices: int = typer.Option(1000, min=1, help="devices that publish, except with --fleets"),
    seconds: int = typer.Option(120, "--delay", min=0, help="seconds of a fleet whose messages go to the tables"),
    known: int = typer.Option(100_000, "--console", min=0, help="devices that the console shows"),
    runs: int = typer.Option(3, min=1, help="runs of each stage and of the collector; the median counts"),
    only: str = typer.Option("", help="measure only parts with this text in their titles"),
    out: Path = typer.Option(CHECKOUT / "build/bench-pipeline.json", "--json", help="file for the figures"),
    markdown: bool = typer.Option(False, help="print the tables as Markdown"),
):
    """Measures stages, history, small batches, fleets, collector, delay, console. Size 0 or "" leaves a part out."""
    parts: list = [
        *(
            ("Stages, deliveries/s (share of the ceiling)", stages.measure, size, devices, runs)
            for size in _numbers(millions, float)
        ),
        ("Micro-batch against history", history.measure, batches, devices),
        ("Small micro-batches", history.measure_small, few),
        *(
            ("Micro-batch against devices that the ledger knows", history.measure_devices, size)
            for size in _numbers(fleets, int)
        ),
        ("Collector", collector.measure, messages, runs),
        ("From a device to the tables", delay.measure, seconds, 1, 1),
        ("From a device to the tables", delay.measure, seconds, options.AGE_S, options.BATCHES_S),
        ("Console", console.measure, known),
    ]
    found = {"machine": _machine(), "tables": {}}
    out.parent.mkdir(parents=True, exist_ok=True)  # temporary files are there, too: /tmp may be in memory
    for title, measure, size, *more in parts:
        if size and only.lower() in title.lower():
            log(f"{title}: {size:g}")
            with tempfile.TemporaryDirectory(prefix="bench-", dir=out.parent.absolute()) as folder:
                found["tables"].setdefault(title, {}).update(_in_process(measure, Path(folder), size, *more))
            # After each part: a large run takes an hour, and may be stopped.
            write_atomic(out, json.dumps(found, indent=2) + "\n")
    log(found["machine"])
    show([(title, across(columns)) for title, columns in found["tables"].items()], markdown)
    log(f"figures are in {out}")


if __name__ == "__main__":
    app()
