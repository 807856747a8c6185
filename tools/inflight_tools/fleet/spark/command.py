"""The commands `inflight fleet tables` and `inflight fleet compact`. Spark runs on this machine or on a cluster."""

import contextlib
import datetime
import json
import os
import re
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from inflight_tools import options
from inflight_tools.extras import not_installed
from inflight_tools.fleet.collect.spool import make_folder
from inflight_tools.fleet.locations import for_spark, location, present
from inflight_tools.fleet.lock import Busy, take_lock
from inflight_tools.fleet.monitoring.option import serve_metrics
from inflight_tools.fleet.spark.landing import STALE_S, LandingFiles, Watch, summary
from inflight_tools.fleet.spark.session import PARTITIONS
from inflight_tools.fleet.spark.space import full_folder
from inflight_tools.fleet.spark.storage import Storage
from inflight_tools.output import failing, failure, first_line, log
from inflight_tools.signals import stop_event
from inflight_tools.visible import visible

_FULL_S = 10  # between attempts while a disk is full
_COUNT_S = 15  # between counts of unread landing files, for metrics
_FIRST = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


@contextlib.contextmanager
def _spark(name, master, partitions, conf):
    """A Spark session. An error ends the command with a message of one line."""
    try:
        from deltalake.exceptions import DeltaError
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException
    except ImportError:
        raise failure(not_installed("Spark or Delta Lake", "fleet") + ", or `make setup-pipeline`") from None
    from inflight_tools.fleet.delta import WrongTables, advice
    from inflight_tools.fleet.spark.session import session

    if not master.startswith(("local", "spark://", "yarn", "k8s://")):
        raise typer.BadParameter(f"--master {master}: local[*], spark://host:7077, yarn or k8s://https://host:port")
    try:
        properties = dict(pair.split("=", 1) for pair in conf or ())
    except ValueError:
        raise typer.BadParameter("--conf needs name=value") from None
    with tempfile.TemporaryDirectory(prefix="inflight-spark-", ignore_cleanup_errors=True) as folder:
        spark = None
        try:
            spark = session(f"inflight {name}", Path(folder), master, partitions, properties)
            yield spark
        except (WrongTables, DeltaError, RuntimeError, OSError, PySparkException, Py4JJavaError) as e:
            said = e.java_exception.getMessage() if isinstance(e, Py4JJavaError) else e
            raise failure(advice(str(said or "")) + first_line(said or e)) from None
        finally:
            if spark:
                spark.stop()


@contextlib.contextmanager
def _only_writer(root):
    """A context in which no other `tables` writes the tables in the folder `root`: what one has begun would look to the
    other like what a power cut has left. In object storage, where no lock is, the second commit of a batch fails."""
    with contextlib.ExitStack() as held:
        if "://" not in root:
            with failing(OSError, Busy):
                make_folder(Path(root))
                busy = f"another `inflight fleet tables` writes the tables in {root}: stop it first"
                held.callback(os.close, take_lock(Path(root, ".lock"), busy))
        yield


def _alarm(watch):
    """Says how many landing files stay unread. Returns whether there are any."""
    if stuck := watch.stuck():
        why = "is Spark too slow for them? It reads no file whose name begins with _, and no link that leads nowhere"
        said = f": {len(stuck)} landing files stay unread, for example {visible(stuck[0])}: {why}"
        log(Text.assemble(("ALARM", "bold red"), said))
    return bool(stuck)


def follow(query, watch, stopping, as_json, metrics=None):
    """Reports each batch, and landing files that stay unread, until the query ends or `stopping` is set. Returns
    whether some were unread then. metrics: a TablesMetrics."""
    last = -1
    running = True
    check = time.monotonic() + STALE_S
    count = time.monotonic()
    while running:
        running = query.isActive and not stopping.wait(0.2)
        for progress in query.recentProgress:  # once more after the query's end: the last batches
            if progress["batchId"] > last and (rows := progress["numInputRows"]):
                last = progress["batchId"]
                seconds = progress["durationMs"]["triggerExecution"] / 1000
                if as_json:
                    print(json.dumps({"batch": last, "deliveries": rows, "seconds": seconds}), flush=True)
                else:
                    log(f"batch {last}: {rows} deliveries in {seconds:.1f} s")
                if metrics:
                    metrics.batch(rows, seconds, time.time())
        if metrics and time.monotonic() >= count:
            count = time.monotonic() + _COUNT_S
            metrics.unread(summary(watch.unread(), time.time()))
        if time.monotonic() >= check:
            check = time.monotonic() + STALE_S
            _alarm(watch)
    if query.isActive:
        query.stop()
    if query.exception():
        raise RuntimeError(f"the query ended: {query.exception()}")
    return not stopping.is_set() and _alarm(watch)


def go_on(begin, watch, stopping, as_json, folders, set_aside, metrics=None, once=False):
    """Calls follow() with the query that begin() returns, and again whenever the disk of one of the `folders` was full,
    or set_aside(error) has moved files away that could not be read. once: a full disk, or a file that nothing reads,
    ends the command with an error."""
    told = False
    while not stopping.is_set():
        query = None
        try:
            query = begin()
            if follow(query, watch, stopping, as_json, metrics) and once:
                raise typer.Exit(1)
            return
        except typer.Exit:
            raise
        except Exception as e:  # of Java, delta-rs or Python
            if set_aside(str(e)):
                continue
            if not (folder := full_folder(str(e), folders)):
                raise
            if once:
                raise failure(
                    f"no space left on {folder}: nothing was lost, and the next run goes on when there is space"
                ) from None
            told = told and not any(one["numInputRows"] for one in (query.recentProgress if query else ()))
            if not told:
                log(f"no space left on {folder}: nothing was lost, and it goes on when there is space")
            told = True
            stopping.wait(_FULL_S)


def tables(
    data: options.Data = options.DATA,
    landing: options.Landing = None,
    to: options.Tables = None,
    root: options.Root = "inflight",
    master: options.Master = options.MASTER,
    once: options.Once = False,
    every: options.Batches = options.BATCHES_S,
    files: Annotated[
        int | None, typer.Option(min=1, help="most landing files in a micro-batch; default: 256 MB")
    ] = None,
    new_checkpoint: Annotated[
        bool, typer.Option("--new-checkpoint", help="begin a new checkpoint, for tables that have lost theirs")
    ] = False,
    as_json: options.Json = False,
    metrics: options.Metrics = None,
    partitions: options.Partitions = PARTITIONS,
    conf: options.Conf = None,
):
    """Writes landing files into tables, until it is stopped or --once. It may be killed at any time: the next run
    continues, and no row is lost or stored twice."""
    landing, to = location(data, landing, "landing"), location(data, to, "tables")
    with failing(ValueError, OSError):  # before Spark: a wrong port is told at once
        exported = serve_metrics(metrics, log, lambda module: module.TablesMetrics())
    for_spark(to)
    present(for_spark(landing), "name that of `inflight fleet collect` with --data or --landing")
    with _only_writer(to), stop_event() as stopping, _spark("tables", master, partitions, conf) as spark:
        from inflight_tools.fleet.spark.guard import advice, set_aside
        from inflight_tools.fleet.spark.stream import start

        watch = Watch(LandingFiles(landing, to, partial(Storage, spark)))

        def begin():
            nonlocal new_checkpoint
            query = start(spark, landing, to, root, every, once, files, new_checkpoint)
            new_checkpoint = False  # not again when there is space
            log(f"landing files in {landing} go into the tables in {to}")
            return query

        try:
            folders = to, landing, tempfile.gettempdir()
            aside = partial(set_aside, spark, landing, to, watch)
            go_on(begin, watch, stopping, as_json, folders, aside, exported, once)
        except RuntimeError as e:
            raise RuntimeError(f"{advice(spark, to)}{e}") from None


def _oldest(keep, option):
    """The datetime before which rows are deleted. `keep`: what `option` gives, "90d" or "2y"; None: none are."""
    if keep is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,5}d|[1-9]\d?y", keep):
        raise typer.BadParameter(f"{option} {keep}: a number of days, as in 90d, or of years, as in 2y")
    days = int(keep[:-1]) * (365 if keep[-1] == "y" else 1)
    now = datetime.datetime.now(datetime.timezone.utc)
    return now - datetime.timedelta(days=min(days, (now - _FIRST).days))


def _check_clock(newest, oldest):
    """Raises RuntimeError if a clock that is far ahead would delete rows. newest: when the newest row was received, a
    datetime, or None; oldest: what _oldest() returned for each option."""
    now = datetime.datetime.now(datetime.timezone.utc)
    for limit in filter(None, oldest):
        if newest and newest < limit + (now - limit) / 2:  # more than half of what is to stay would go
            raise RuntimeError(
                f"the newest row is of {newest:%Y-%m-%d}, and this machine's clock says {now:%Y-%m-%d}: set the clock, "
                "or leave --keep and the like out; nothing was deleted"
            )


def compact(
    data: options.Data = options.DATA,
    of: options.Tables = None,
    keep: Annotated[
        str | None, typer.Option(help="delete deliveries in `raw` that were received before, for example, 90d")
    ] = None,
    keep_measurements: Annotated[
        str | None,
        typer.Option(help="delete measurements that were received before; `minutes` keeps their mean, least and most"),
    ] = None,
    keep_minutes: Annotated[
        str | None, typer.Option(help="delete these as well when they are older, for example, 2y")
    ] = None,
    master: options.Master = options.MASTER,
    partitions: options.Partitions = PARTITIONS,
    conf: options.Conf = None,
):
    """Merges small files of the tables into larger ones, and deletes files that no table has had for a day. Rows stay,
    except those that are older than an option says. `tables` and readers may run meanwhile."""
    limits = {"--keep": keep, "--keep-measurements": keep_measurements, "--keep-minutes": keep_minutes}
    oldest = [_oldest(given, option) for option, given in limits.items()]
    if oldest[2] and not (oldest[1] and oldest[2] <= oldest[1]):
        raise typer.BadParameter("--keep-minutes needs --keep-measurements, and a time at least as long")
    of = for_spark(location(data, of, "tables"))
    present(of, "name the tables with --data or --of")
    present(f"{of}/raw", "there are no tables yet, `inflight fleet tables` makes them")
    with _spark("compact", master, partitions, conf) as spark:
        from inflight_tools.fleet.spark.batch import Tables

        tables = Tables(spark, of)
        _check_clock(tables.newest(), oldest)
        log(f"replaced {tables.merge(*oldest)} files by larger ones")
        tables.vacuum()
