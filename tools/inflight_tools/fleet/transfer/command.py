"""The commands `inflight fleet upload` and `inflight fleet download`."""

import contextlib
import json
import time

import typer

from inflight_tools.extras import not_installed
from inflight_tools.failure import print_failure
from inflight_tools.fleet.lock import Busy
from inflight_tools.fleet.monitoring.option import serve_metrics
from inflight_tools.fleet.transfer.loop import Loop
from inflight_tools.fleet.transfer.names import Blocked
from inflight_tools.fleet.transfer.objects import Objects, Refused


def _telling(done, say, as_json):
    """A function that reports Figures."""
    start = time.monotonic()

    def tell(figures):
        if as_json:
            told = {done: figures.files, "bytes": figures.bytes, "waiting": len(figures.waiting)}
            print(
                json.dumps(told | {"errors": figures.errors, "seconds": round(time.monotonic() - start, 3)}), flush=True
            )
        else:
            files = "1 file" if figures.files == 1 else f"{figures.files:,} files"
            say(f"{done} {files}, {figures.bytes:,} bytes; {len(figures.waiting):,} wait")

    return tell


def move(make, uri, stopping, say, console, once, every, as_json, metrics):
    """Runs the command, and ends it with exit status 1 if it failed.

    make: a function that makes an Upload or a Download of an Objects."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        print_failure(console, not_installed("pyarrow", "fleet"))
        raise typer.Exit(1) from None
    try:
        with contextlib.closing(make(Objects(uri))) as side:
            loop = Loop(side, say, _telling(side.done, say, as_json))
            serve_metrics(metrics, say, lambda module: module.TransferMetrics(loop.figures, side.name))
            if once:
                loop.once(stopping)
            else:
                loop.run(stopping, every)
    except (ValueError, OSError, Busy, Refused, Blocked) as e:
        print_failure(console, str(e).partition("\n")[0][:500] or type(e).__name__)
        raise typer.Exit(1) from None
