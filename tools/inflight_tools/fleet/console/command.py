"""The command `inflight serve`."""

import contextlib
import secrets
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from inflight_tools import options
from inflight_tools.extras import not_installed
from inflight_tools.fleet.console.access import Access
from inflight_tools.fleet.console.server import Console
from inflight_tools.fleet.monitoring.address import address
from inflight_tools.output import failing, failure, log
from inflight_tools.signals import stop_event

_SWITCH_S = 0.001  # that a page waits for the thread which reads the tables, many times: Python's default is 5 ms


def _of_data(data, landing, of, root, token, beside, stack, **how):
    """(what is shown, arguments for a Console); the thread that reads is a context of `stack`."""
    from inflight_tools.fleet.locations import location
    from inflight_tools.fleet.query.errors import querying

    if not (landing and of or data.is_dir()):
        log(f"there is no folder {data} yet: `inflight fleet collect` makes it, if it has this name there")
    landing, of = location(data, landing, "landing"), location(data, of, "tables")
    with querying():
        from inflight_tools.fleet.console.live import Live
        from inflight_tools.fleet.console.pages import of_tables

        sys.setswitchinterval(_SWITCH_S)
        live = stack.enter_context(Live(landing, of, root or "inflight", **how))
        return f"the fleet in {of}", of_tables(live, token, beside)


def _of_broker(at, stack, token, releases):
    """(what is shown, DevicePages); the connection is a context of `stack`."""
    try:
        from inflight_tools.boards.device.link import DeviceError
        from inflight_tools.broker import find_broker
        from inflight_tools.devices.roster import KINDS, Connection
        from inflight_tools.fleet.console.devices import DevicePages
    except ImportError as e:
        raise failure(not_installed(e.name, "boards")) from None
    with failing(ValueError, DeviceError, OSError):
        connection = stack.enter_context(Connection(find_broker(at)[0], *KINDS[2:]))
    pages = stack.enter_context(DevicePages(connection, token, releases))
    return f"what devices tell at {connection.broker.place}", pages


def main(
    at: options.BrokerOptions,
    data: options.DataOrNone = None,
    landing: options.Landing = None,
    of: options.Tables = None,
    changes: Annotated[
        bool,
        typer.Option(
            "--changes", help="viewers may change settings, restart devices, read logs, and say what tables do not"
        ),
    ] = False,
    releases: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="folder of releases that viewers may install, with --changes"),
    ] = None,
    listen: Annotated[str, typer.Option(help="[host:]port, by default of this machine alone")] = "8470",
    viewer_password_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="file with a password that browsers ask for")
    ] = None,
    proxy_header: Annotated[
        str | None, typer.Option(help="header in which a proxy names whom it has let in, for example X-Forwarded-User")
    ] = None,
    proxy: Annotated[str, typer.Option(help="address or network of that proxy: from no other the header counts")] = (
        "127.0.0.0/8"
    ),
    grace: options.Grace = options.GRACE_S,
    retired: options.Retired = None,
    reading: Annotated[
        list[str] | None,
        typer.Option(help="name of a reading whose last value of each device /metrics has, too; can be repeated"),
    ] = None,
):
    """Shows devices to browsers, until it is stopped. With --broker or --config, by what they tell at the broker now:
    state, last reading, what is wrong. With --data, by the tables: the report as it is now, a page for each device, and
    metrics of the fleet for Prometheus at /metrics; a page says how old it is. With both, a device's page has both. It
    only reads, without --changes. Others than this machine need a password, or a proxy that has let them in."""
    is_of_tables, is_of_broker = bool(data or landing or of), bool(at.broker or at.config)
    if not (is_of_tables or is_of_broker):
        raise typer.BadParameter("name a broker with --broker or --config, or tables with --data, or both")
    if releases and not (changes and is_of_broker):
        raise typer.BadParameter("--releases needs --changes, and a broker")
    with failing(ValueError, OSError):
        host, port = address(listen, "--listen")
        password = viewer_password_file and viewer_password_file.read_text(encoding="utf-8").rstrip("\r\n")
        if viewer_password_file and not password:
            raise ValueError(f"{viewer_password_file} has no password")
        access = Access(host, password, proxy_header, proxy)
    token = secrets.token_urlsafe() if changes else None
    with contextlib.ExitStack() as stack:
        shown, beside = _of_broker(at, stack, token, releases) if is_of_broker else ("", None)
        how = beside and {"pages": beside.pages, "changes": beside.changes, "token": token}
        if is_of_tables:
            judged = {"grace_s": grace, "retired": retired or [], "readings": reading or []}
            shown, how = _of_data(data or options.DATA, landing, of, at.root, token, beside, stack, **judged)
        with failing(OSError):
            console = stack.enter_context(Console(host, port, access=access, **how))
        stopping = stack.enter_context(stop_event())  # before anybody is told, who may stop it then
        place = f"[{host}]" if ":" in host else host
        log(f"{shown} is at http://{place}:{console.server_port}/")
        threading.Thread(target=console.serve_forever, daemon=True).start()
        stopping.wait()
        console.shutdown()
