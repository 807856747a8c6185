"""The commands `inflight fleet upload` and `inflight fleet download`."""

import contextlib
import json
import time
from functools import partial
from typing import Annotated

import typer

from inflight_tools import options
from inflight_tools.extras import not_installed
from inflight_tools.fleet.lock import Busy
from inflight_tools.fleet.monitoring.option import serve_metrics
from inflight_tools.fleet.transfer.download import Download
from inflight_tools.fleet.transfer.loop import Loop
from inflight_tools.fleet.transfer.names import Blocked
from inflight_tools.fleet.transfer.objects import Objects, Refused
from inflight_tools.fleet.transfer.upload import Upload
from inflight_tools.output import failure, first_line, log
from inflight_tools.signals import stop_event


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


def _moving(make):
    """The command that moves files by make(folder of the landing files, Objects, keep)."""

    def main(
        uri: Annotated[
            str,
            typer.Argument(help="folder of object storage: s3://bucket/folder; its settings are in the environment"),
        ],
        data: options.Data = options.DATA,
        landing: options.LandingFolderOrNone = None,
        keep_moved: Annotated[bool, typer.Option("--keep-moved", help="keep what was moved in another folder")] = False,
        once: options.Once = False,
        every: Annotated[float, options.every("looks for files")] = options.EVERY_S,
        as_json: options.Json = False,
        metrics: options.Metrics = None,
    ):
        folder = options.local_folder(landing) if landing else data / "landing"
        with stop_event() as stopping:
            try:
                import pyarrow  # noqa: F401
            except ImportError:
                raise failure(not_installed("pyarrow", "fleet")) from None
            try:
                with contextlib.closing(make(folder, Objects(uri), keep_moved)) as side:
                    loop = Loop(side, log, _telling(side.done, as_json))
                    serve_metrics(metrics, log, lambda module: module.TransferMetrics(loop.figures, side.name))
                    if once:
                        loop.once(stopping)
                    else:
                        loop.run(stopping, every)
            except (ValueError, OSError, Busy, Refused, Blocked) as e:
                raise failure(first_line(e)) from None

    return main


upload = _moving(Upload)
download = _moving(partial(Download, say=log))
