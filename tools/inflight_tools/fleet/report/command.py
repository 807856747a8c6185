"""The command `inflight fleet report`."""

import enum
import json
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from inflight_tools import options
from inflight_tools.fleet.collect.counters import load
from inflight_tools.fleet.judgement import JUDGED, figures
from inflight_tools.fleet.locations import locations, time_span
from inflight_tools.fleet.query.errors import querying
from inflight_tools.fleet.spark.landing import LandingFiles
from inflight_tools.output import log

_FAILED_ON = 3  # exit status


class FailOn(enum.Enum):
    LOST = "lost"


def _summary(facts):
    shown = Table(title="The fleet", title_justify="left", show_header=False)
    fleet = facts["fleet"]
    for name in ("devices", "accepted", "delivered", "guessed", "repeated", "dead_letters", "restarts"):
        shown.add_row(name.replace("_", " "), f"{fleet[name]:,}")
    for name, n in figures(facts).items():
        shown.add_row(JUDGED[name].several or f"{JUDGED[name].one}s", f"{n:,}")
    return shown


def report(
    data: options.Data = options.DATA,
    landing: options.Landing = None,
    of: options.Tables = None,
    root: options.Root = "inflight",
    out: Annotated[Path | None, options.out("file of the page", "report.html in --data")] = None,
    device: Annotated[list[str] | None, typer.Option(help="whose measurements are shown; can be repeated")] = None,
    since: options.Since = None,
    until: options.Until = None,
    grace: options.Grace = options.GRACE_S,
    retired: options.Retired = None,
    fail_on: Annotated[
        FailOn | None, typer.Option(help="end with exit status 3 if messages are lost, also if only by age")
    ] = None,
    as_json: options.Json = False,
):
    """Writes one HTML page: for each device, which messages were accepted, and where each of them is. It shows the
    measurements of the devices that --device names, and what has changed since the report that it replaces. --json
    prints all figures."""
    out = out or data / "report.html"
    landing, of = locations(data, landing, of)
    now = time.time()
    how = dict(zip(("since", "until"), time_span(since, until, now), strict=True)) | {"retired": retired or []}
    with querying():
        from inflight_tools.fleet.query.facts import gather
        from inflight_tools.fleet.report import change, render

        # Before the tables: what is read meanwhile counts here.
        before = {"unread": LandingFiles(landing, of).unread(), "counters": load(landing)}
        facts = gather(of, root, device or [], grace_s=grace, now=now, **before, **how)
        changed = change(out, facts)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(render(facts, changed=changed), encoding="utf-8")
    if as_json:
        print(json.dumps(facts | {"change": changed}, allow_nan=False))
    else:
        Console().print(_summary(facts))
    log(f"{out}: {out.stat().st_size:,} bytes")
    if fail_on and facts["fleet"]["lost"]:
        raise typer.Exit(_FAILED_ON)
