"""The command `inflight fleet check`."""

import json
import time
from typing import Annotated

import typer

from inflight_tools import options
from inflight_tools.fleet.judgement import JUDGED
from inflight_tools.fleet.locations import locations, time_span
from inflight_tools.fleet.query.errors import querying
from inflight_tools.fleet.spark.landing import LandingFiles

FIGURES = {name.replace("_", "-"): name for name in (*JUDGED, "repeated") if name != "before"} | {"unknown": "before"}


def _most(what):
    """An option of `check`."""
    return typer.Option(min=0, help=f"raise an alarm above this number of {what}")


def check(
    data: options.Data = options.DATA,
    landing: options.Landing = None,
    of: options.Tables = None,
    root: options.Root = "inflight",
    since: options.Since = None,
    grace: options.Grace = options.GRACE_S,
    retired: options.Retired = None,
    max_silent: Annotated[int, _most("silent devices")] = 0,
    max_lost: Annotated[int, _most("lost messages, also by age only")] = 0,
    max_given_up: Annotated[int, _most("messages given up by devices")] = 0,
    max_conflicts: Annotated[int, _most("messages whose number another one has")] = 0,
    max_tails: Annotated[int | None, _most("devices whose last messages are unknown; default: any")] = None,
    max_unknown: Annotated[int | None, _most("numbers of which nothing is known; default: any")] = None,
    max_dead_letters: Annotated[int, _most("dead letters")] = 0,
    max_nearly_full: Annotated[int, _most("devices whose journal is nearly full")] = 0,
    max_behind: Annotated[int, _most("collectors that have not shown for ten minutes that they have received all")] = 0,
    max_stale: Annotated[int, _most("landing files that are not in the tables after ten minutes")] = 0,
    only: Annotated[
        list[str] | None,
        typer.Option(help=f"alarm for this alone, and for what should never be; can be repeated: {', '.join(FIGURES)}"),
    ] = None,
    as_json: options.Json = False,
):
    """Prints one line for a cron job, and ends with exit status 1 if there is more of something than its option allows.
    The figures are those of the report, and --since limits them: what was lost long ago is no alarm today. Whether a
    device is silent is judged over its whole life. It needs no Spark."""
    landing, of = locations(data, landing, of)
    if unknown := set(only or ()) - FIGURES.keys():
        raise typer.BadParameter(f"--only {unknown.pop()}: {', '.join(FIGURES)}")
    now = time.time()
    start, _ = time_span(since, None, now)
    with querying():
        from inflight_tools.fleet.monitoring.alarms import Check
        from inflight_tools.fleet.query.facts import totals

        unread = LandingFiles(landing, of).unread()  # before the tables
        facts = totals(of, root, grace_s=grace, now=now, unread=unread, since=start, retired=retired or [])
    most = {"silent": max_silent, "lost": max_lost, "dead_letters": max_dead_letters, "nearly_full": max_nearly_full}
    most |= {"given_up": max_given_up, "conflicts": max_conflicts}
    most |= {name: n for name, n in (("tails", max_tails), ("before", max_unknown)) if n is not None}
    most |= {"behind": max_behind, "stale": max_stale}
    found = Check(facts, {FIGURES[one]: most.get(FIGURES[one], 0) for one in only} if only else most)
    print(json.dumps(found.figures | {"alarms": found.alarms}) if as_json else found.line())
    if found.alarms:
        raise typer.Exit(1)
