"""The command `inflight fleet history`."""

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from inflight_tools import options
from inflight_tools.extras import not_installed
from inflight_tools.fleet.locations import locations, time_span
from inflight_tools.fleet.query.errors import querying
from inflight_tools.output import failure, log


def history(
    home_assistant: Annotated[str, typer.Option(help="URL of Home Assistant")],
    token_file: Annotated[Path, typer.Option(help="file with a long-lived access token of an administrator")],
    data: options.Data = options.DATA,
    of: options.Tables = None,
    since: options.Since = None,
    until: options.Until = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="send the token over http: whoever listens on the way can then read it")
    ] = False,
    late: Annotated[int, typer.Option(min=1, help="seconds after which a reading is late")] = 300,
    as_json: options.Json = False,
):
    """Imports readings that arrived late into Home Assistant's statistics, at their true time: mean, least and most of
    each hour; of a meter what it counted. Again is no harm."""
    _, of = locations(data, None, of)
    if home_assistant.lower().startswith("http:") and not plain_http:
        raise failure(
            f"{home_assistant}: the token would leave in plain text: use https, or --plain-http in your own network"
        )
    now = time.time()
    times = time_span(since, until, now)
    try:
        token = token_file.read_text().strip()
    except (OSError, ValueError):
        raise failure(f"{token_file} cannot be read: write the token into it, which Home Assistant makes") from None
    try:
        from inflight_tools.fleet.home_assistant.late_hours import HomeAssistant, Refused, hours, write
    except ImportError as e:
        raise failure(not_installed(e.name, "fleet")) from None
    with querying(Refused):
        from inflight_tools.fleet.query.database import Database

        with Database(of) as database:
            found = hours(database, now, late, *times)
        written, left = {}, {}
        if found:
            with HomeAssistant(home_assistant, token) as home:
                written, left = write(home, found)
    if as_json:
        print(json.dumps({"hours": written, "left_out": left}))
        return
    for entity, why in left.items():
        log(f"{entity}: {why}")
    log(f"{sum(written.values())} hours of {len(written)} entities are in Home Assistant's statistics")
