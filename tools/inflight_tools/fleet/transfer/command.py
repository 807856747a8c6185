"""The commands `inflight fleet upload` and `inflight fleet download`."""

import contextlib
import json
import time

from inflight_tools.extras import not_installed
from inflight_tools.fleet.lock import Busy
from inflight_tools.fleet.monitoring.option import serve_metrics
from inflight_tools.fleet.transfer.loop import Loop
from inflight_tools.fleet.transfer.names import Blocked
from inflight_tools.fleet.transfer.objects import Objects, Refused
from inflight_tools.output import failure, first_line, log


def _telling(done, as_json):
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
            log(f"{done} {files}, {figures.bytes:,} bytes; {len(figures.waiting):,} wait")

    return tell


def move(make, uri, stopping, once, every, as_json, metrics):
    """Runs the command, and ends it with exit status 1 if it failed.

    make: a function that makes an Upload or a Download of an Objects."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise failure(not_installed("pyarrow", "fleet")) from None
    try:
        with contextlib.closing(make(Objects(uri))) as side:
            loop = Loop(side, log, _telling(side.done, as_json))
            serve_metrics(metrics, log, lambda module: module.TransferMetrics(loop.figures, side.name))
            if once:
                loop.once(stopping)
            else:
                loop.run(stopping, every)
    except (ValueError, OSError, Busy, Refused, Blocked) as e:
        raise failure(first_line(e)) from None
