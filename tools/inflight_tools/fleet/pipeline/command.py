"""The command `inflight fleet pipeline`."""

import sys

import typer
from rich.console import Console

from inflight_tools import options
from inflight_tools.broker import find_broker, words_of
from inflight_tools.fleet.collect.spool import make_folder
from inflight_tools.fleet.locations import for_spark
from inflight_tools.fleet.monitoring.address import both
from inflight_tools.fleet.pipeline import together
from inflight_tools.fleet.spark.landing import LandingFiles
from inflight_tools.output import failing
from inflight_tools.signals import stop_event

CONSOLE = Console(stderr=True)
_STATUS_S = 2  # between the collector's reports on a terminal


def pipeline(
    at: options.BrokerOptions,
    data: options.Data = options.DATA,
    master: options.Master = options.MASTER,
    age: options.Age = options.AGE_S,
    every: options.Batches = options.BATCHES_S,
    metrics: options.BothMetrics = None,
):
    """Runs `collect` and `tables` together, until Ctrl-C. This is enough for a small fleet. On a terminal the last line
    tells how they do."""
    with failing(ValueError, OSError):  # before Spark starts
        root = find_broker(at)[0].root
        places = metrics and both(metrics)
    collect = ["collect", "--landing", str(data / "landing"), "--age", str(age), *words_of(at, root)]
    spark = ["tables", "--root", root, "--data", str(data), "--master", master, "--every", str(every)]
    if places:
        for words, place in zip((collect, spark), places, strict=True):
            words += ["--metrics", place]
    if CONSOLE.is_terminal:  # what becomes one line
        collect += ["--json", "--report", str(_STATUS_S)]
        spark += ["--json"]
    for_spark(str(data.absolute()))
    make_folder(data / "landing")  # both children need it
    landing = LandingFiles(data / "landing", data / "tables")
    this = [sys.executable, "-m", "inflight_tools", "fleet"]
    commands = [[*this, *words] for words in (collect, spark)]
    with stop_event() as stopping:
        raise typer.Exit(together.run(commands, together.Status(lambda: len(landing.unread())), CONSOLE, stopping))
