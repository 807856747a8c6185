"""The command `inflight fleet collect`."""

import contextlib
import json
import re
from typing import Annotated

import typer

from inflight_tools import options
from inflight_tools.broker import find_broker
from inflight_tools.fleet.collect.collector import Collector, NotWritten, Refused
from inflight_tools.fleet.collect.spool import Spool
from inflight_tools.fleet.lock import Busy
from inflight_tools.fleet.monitoring.option import serve_metrics
from inflight_tools.options import local_folder
from inflight_tools.output import WrongArgument, failing, log
from inflight_tools.signals import on_stop

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def collect(
    landing: options.LandingFolder,
    at: options.BrokerOptions,
    name: Annotated[str, typer.Option(help="client id of the session: unique, and never changed")] = "collector-0",
    share: Annotated[str | None, typer.Option(help="group of collectors that share the load")] = None,
    size: Annotated[float, typer.Option(min=0.001, help="MiB after which a landing file is finished")] = 16,
    age: options.Age = options.AGE_S,
    max_payload: Annotated[int, typer.Option(min=1024, max=16_000_000, help="longer payloads are cut, and marked")] = 1
    << 20,
    report: Annotated[float, typer.Option(min=0.1, help="seconds between reports")] = 10,
    as_json: options.Json = False,
    metrics: options.Metrics = None,
    marker: Annotated[
        float, typer.Option(min=0, help="seconds between markers, which prove what is lost; 0: none")
    ] = 60,
):
    """Writes the fleet's messages into landing files, until SIGTERM or Ctrl-C. Then it writes and acknowledges what it
    has received, and finishes the last file. Exit status 1 if the broker refuses the collector, or if messages could
    not be written (the broker keeps those)."""

    def tell(figures):
        with contextlib.suppress(OSError):
            print(json.dumps(figures), flush=True)

    folder = local_folder(landing)
    with failing(ValueError, OSError, Busy, Refused, NotWritten):
        for option, given in (("name", name), ("share", share)):
            if given is not None and not _NAME.fullmatch(given):
                raise WrongArgument(f"--{option} {given}: letters, digits and _ . - inside, 64 at most")
        server, level = find_broker(at)
        spool = Spool(folder, name, int(size * (1 << 20)), age)
        figures = folder / f".{name}.json"
        told = tell if as_json else None
        collector = Collector(server, name, spool, log, figures, share, max_payload, report, marker, told, level)
        serve_metrics(metrics, log, lambda module: module.CollectorMetrics(collector, name, folder))
        with on_stop(collector.stop):
            collector.run()
