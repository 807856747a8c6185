"""The command `inflight fleet export`."""

import contextlib
import enum
import json
import time
from typing import Annotated

import typer

from inflight_tools import options
from inflight_tools.fleet.locations import locations, named, time_span
from inflight_tools.fleet.query.errors import querying
from inflight_tools.fleet.spark.landing import LandingFiles, summary
from inflight_tools.output import log
from inflight_tools.signals import stop_event


class Form(enum.Enum):
    PARQUET = "parquet"
    LINE_PROTOCOL = "line-protocol"


def _follow(to, of, form, undated, once, every, as_json):
    """Exports the measurements of the tables in `of`, see query/follow.py."""

    def tell(rows):
        if rows and as_json:
            print(json.dumps({"measurements": rows}), flush=True)
        elif rows:
            log(f"exported {rows:,} measurements to {to}")

    with stop_event() as stopping, querying():
        from inflight_tools.fleet.query.follow import Follower

        with contextlib.closing(Follower(of, to, (form or Form.PARQUET).value, undated)) as follower:
            while not stopping.is_set():
                rows = follower.step()
                tell(rows)
                if rows is None and (once or stopping.wait(every)):
                    return


def export(
    to: Annotated[str, typer.Argument(help="folder or URI")],
    data: options.Data = options.DATA,
    landing: options.Landing = None,
    of: options.Tables = None,
    since: options.Since = None,
    until: options.Until = None,
    grace: options.Grace = options.GRACE_S,
    retired: options.Retired = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="the measurements instead, each once, as they come, until it is stopped")
    ] = False,
    form: Annotated[Form | None, typer.Option("--format", help="with --follow: of its files")] = None,
    undated: Annotated[
        bool, typer.Option("--undated", help="with --follow: readings without a time at once, not when they are dated")
    ] = False,
    once: options.Once = False,
    every: Annotated[float, options.every("looks for new measurements, with --follow")] = options.EVERY_S,
    as_json: options.Json = False,
):
    """Writes Parquet for other tools: aggregates/size=minute|hour|day, devices (accepted, delivered, lost, health), and
    missing: the numbers that have not arrived, each with its place. With --follow it writes files with measurements for
    a database: each measurement once, though it may be killed at any time."""
    if follow:
        if since or until:
            raise typer.BadParameter("--follow exports all: leave --since and --until out")
        _follow(options.local_folder(to, "TO"), locations(data, landing, of)[1], form, undated, once, every, as_json)
        return
    if form or undated or once:
        raise typer.BadParameter("--format, --undated and --once go with --follow")
    to = named(to)
    landing, of = locations(data, landing, of)
    now = time.time()
    times = time_span(since, until, now)
    with querying():
        from inflight_tools.fleet.query import views
        from inflight_tools.fleet.query.database import Database
        from inflight_tools.fleet.query.export import write

        unread = LandingFiles(landing, of).unread()  # before the tables
        with Database(of) as database:
            views.judge(database, now, grace, retired or [], summary(unread, now)["stale"] > 0, *times)
            write(database, to)
    log(f"aggregates, devices and missing numbers are in {to}")
