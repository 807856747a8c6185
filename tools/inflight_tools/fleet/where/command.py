"""The command `inflight fleet where`."""

import json
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inflight_tools import options
from inflight_tools.fleet.locations import locations
from inflight_tools.fleet.query.errors import querying
from inflight_tools.fleet.spark.landing import LandingFiles, summary
from inflight_tools.fleet.where.answer import DELIVERED, Unknown, answer
from inflight_tools.visible import visible

ELSEWHERE = 3  # exit status: the message is not in the tables


def _found(device, number, epoch, landing, of, topics, grace, retired):
    from inflight_tools.fleet.query import views
    from inflight_tools.fleet.query.database import Database

    now, unread = time.time(), LandingFiles(landing, of).unread()  # before the tables: what is read meanwhile counts
    with Database(of) as database:
        if not database.tables["raw"]:
            raise FileNotFoundError(f"there are no tables in {of}: has `inflight fleet tables` run?")
        views.judge(database, now, grace, retired, summary(unread, now)["stale"] > 0)
        return answer(database, device, number, landing, of, topics, epoch)


def where(
    device: Annotated[str, typer.Argument(help="its name, as in its topics")],
    number: Annotated[int, typer.Argument(min=0, max=(1 << 32) - 1, help="the message's `seq`")],
    data: options.Data = options.DATA,
    landing: options.Landing = None,
    of: options.Tables = None,
    root: options.Root = "inflight",
    epoch: Annotated[
        int | None, typer.Option(min=0, help="the journal's `epoch`; default: the device's newest journal")
    ] = None,
    grace: options.Grace = options.GRACE_S,
    retired: options.Retired = None,
    as_json: options.Json = False,
):
    """Tells where message NUMBER of DEVICE is, and its way: accepted, acknowledged, collected, in the tables. Or why it
    is missing, by the rules of the report. It needs no Spark."""
    landing, of = locations(data, landing, of)
    with querying(Unknown):
        from inflight_tools.fleet.where.sentences import rows, sentence

        found = _found(device, number, epoch, landing, of, root, grace, retired or [])
    if as_json:
        print(json.dumps(found))
    else:
        shown = Table(title=Text(visible(f"Message {number} of {device}")), title_justify="left", show_header=False)
        for step, known in rows(found):
            shown.add_row(step, Text(visible(known)))
        Console().print(shown)
        Console().print(sentence(found), highlight=False, soft_wrap=True)
    raise typer.Exit(0 if found["place"] == DELIVERED else ELSEWHERE)
