"""The command `inflight fleet serve`."""

import threading
from pathlib import Path
from typing import Annotated

import typer

from inflight_tools import options
from inflight_tools.fleet.locations import locations
from inflight_tools.fleet.monitoring.address import address
from inflight_tools.fleet.query.errors import querying
from inflight_tools.output import log
from inflight_tools.signals import stop_event


def serve(
    data: options.Data = options.DATA,
    landing: options.Landing = None,
    of: options.Tables = None,
    root: options.Root = "inflight",
    listen: Annotated[str, typer.Option(help="[host:]port, by default of this machine alone")] = "8470",
    viewer_password_file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="file with a password that browsers ask for")
    ] = None,
    proxy_header: Annotated[
        str | None,
        typer.Option(help="header in which a proxy names whom it has let in, for example X-Forwarded-User"),
    ] = None,
    proxy: Annotated[str, typer.Option(help="address or network of that proxy: from no other the header counts")] = (
        "127.0.0.0/8"
    ),
    grace: options.Grace = options.GRACE_S,
    retired: options.Retired = None,
):
    """Shows the fleet to browsers, until it is stopped: the report as it is now, a page for each device, and metrics of
    the fleet for Prometheus at /metrics. It only reads. A page shows a batch within seconds. Others than this machine
    need a password, or a proxy that has let them in."""
    landing, of = locations(data, landing, of)
    with querying():
        from inflight_tools.fleet.console.access import Access
        from inflight_tools.fleet.console.live import Live
        from inflight_tools.fleet.console.pages import of_tables
        from inflight_tools.fleet.console.server import Console

        host, port = address(listen, "--listen")
        password = viewer_password_file and viewer_password_file.read_text(encoding="utf-8").rstrip("\r\n")
        if viewer_password_file and not password:
            raise ValueError(f"{viewer_password_file} has no password")
        access = Access(host, password, proxy_header, proxy)
        live = Live(landing, of, root, grace_s=grace, retired=retired or [])
        console = Console(host, port, of_tables(live), access)
    shown = f"[{host}]" if ":" in host else host
    log(f"the fleet in {of} is at http://{shown}:{console.server_port}/")
    with stop_event() as stopping, console:
        threading.Thread(target=console.serve_forever, daemon=True).start()
        stopping.wait()
        console.shutdown()
