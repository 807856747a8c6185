"""The commands `inflight fleet ...`: collector, tables, report. Spark runs on this machine or on a cluster."""

import contextlib
import datetime
import enum
import json
import os
import re
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import unquote

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inflight_tools import fleet, options
from inflight_tools.broker import find_broker
from inflight_tools.extras import not_installed
from inflight_tools.fleet import together
from inflight_tools.fleet.collect import command
from inflight_tools.fleet.collect.counters import load
from inflight_tools.fleet.collect.spool import make_folder
from inflight_tools.fleet.lock import Busy, take_lock
from inflight_tools.fleet.monitoring.address import address, both
from inflight_tools.fleet.monitoring.option import serve_metrics
from inflight_tools.fleet.query.command import querying
from inflight_tools.fleet.query.times import span
from inflight_tools.fleet.spark.landing import STALE_S, Landing, LandingFiles, Watch, summary
from inflight_tools.fleet.spark.session import PARTITIONS
from inflight_tools.fleet.spark.space import full_folder
from inflight_tools.fleet.spark.storage import without_credentials
from inflight_tools.fleet.transfer import command as transfer
from inflight_tools.fleet.transfer.download import Download
from inflight_tools.fleet.transfer.upload import Upload
from inflight_tools.fleet.where import command as found_by
from inflight_tools.output import epilog, failing, failure, first_line, log
from inflight_tools.signals import stop_event

CONSOLE = Console(stderr=True)
_STATUS_S = 2  # between the collector's reports on a terminal
_FULL_S = 10  # between attempts while a disk is full
_COUNT_S = 15  # between counts of unread landing files, for metrics
_FIRST = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_PATTERN = re.compile(r"[*?\[\]{}\\:]")
app = typer.Typer(no_args_is_help=True, help=fleet.__doc__)
app.command("collect", epilog=epilog("fleet collect --broker broker.example --landing telemetry/landing"))(command.main)


_FAILED_ON = 3  # exit status


def _most(what):
    """An option of `check`."""
    return typer.Option(min=0, help=f"most {what} without an alarm")


class FailOn(enum.Enum):
    LOST = "lost"


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


def _location(data, given, name):
    """Folder or URI of the landing files or the tables: as given, else below `data`."""
    return _named(given) if given else str((data / name).absolute())


def _for_spark(place):
    """`place`, a folder or a URI for Spark. Ends the command if it would be another one for Spark, or none: tables
    would stay empty, without an error."""
    if "://" not in place and (found := _PATTERN.search(place)):
        raise failure(
            f"{place}: Spark reads {found[0]} in the name of a folder as something else: give another folder, or a "
            "symbolic link to it with another name"
        )
    return place


def _present(place, advice):
    """Ends the command if the folder `place` of this machine does not exist: its name may be wrong. Spark would take a
    minute to find that, and some of its ways do not call it an error."""
    scheme, _, path = place.rpartition("://")
    if scheme in ("", "file") and not Path(unquote(path) if scheme else path).is_dir():
        raise failure(f"there is no folder {place}: {advice}")


def _named(place):
    """`place`, a folder or a URI. Ends the command if it is a URI with credentials."""
    try:
        return without_credentials(place)
    except ValueError as e:
        raise failure(str(e)) from None


def _locations(data, landing, of):
    """(landing files, tables), see _location(). Ends the command if a folder that is named does not exist."""
    if not (landing and of):
        _present(str(data), "name that of `inflight fleet collect` with --data")
    for given, option in ((landing, "--landing"), (of, "--of")):
        if given:
            _present(given, f"name another one with {option}")
    return _location(data, landing, "landing"), _location(data, of, "tables")


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


def _span(since, until, now):
    """(since, until) in s since 1970, see span()."""
    try:
        return span(since, until, now)
    except ValueError as e:
        raise typer.BadParameter(str(e)) from None


def _report_batch(batch, deliveries, seconds, as_json):
    if as_json:
        print(json.dumps({"batch": batch, "deliveries": deliveries, "seconds": seconds}), flush=True)
    else:
        log(f"batch {batch}: {deliveries} deliveries in {seconds:.1f} s")


def _alarm(watch):
    """Says how many landing files stay unread."""
    if stuck := watch.stuck():
        log(Text.assemble(("ALARM", "bold red"), f": {stuck} landing files stay unread: is Spark too slow for them?"))


def _serve(place):
    """Serves the metrics of `tables`, see serve_metrics()."""
    try:
        return serve_metrics(place, log, lambda module: module.TablesMetrics())
    except ValueError as e:
        raise typer.BadParameter(str(e)) from None
    except OSError as e:
        raise failure(str(e)) from None


def follow(query, watch, stopping, as_json, metrics=None):
    """Reports each batch, and landing files that stay unread, until the query ends or `stopping` is set. metrics: a
    TablesMetrics."""
    last = -1
    running = True
    check = time.monotonic() + STALE_S
    count = time.monotonic()
    while running:
        running = query.isActive and not stopping.wait(0.2)
        for progress in query.recentProgress:  # once more after the query's end: the last batches
            if progress["batchId"] > last and progress["numInputRows"]:
                last = progress["batchId"]
                seconds = progress["durationMs"]["triggerExecution"] / 1000
                _report_batch(last, progress["numInputRows"], seconds, as_json)
                if metrics:
                    metrics.batch(progress["numInputRows"], seconds, time.time())
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
    if not stopping.is_set():
        _alarm(watch)


def go_on(begin, watch, stopping, as_json, folders, metrics=None, once=False):
    """Calls follow() with the query that begin() returns, and again whenever the disk of one of the `folders` was full.
    once: ends the command then."""
    told = False
    while not stopping.is_set():
        query = None
        try:
            query = begin()
            return follow(query, watch, stopping, as_json, metrics)
        except Exception as e:  # of Java, delta-rs or Python
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


@app.command(epilog=epilog("fleet tables --data telemetry --once"))
def tables(
    data: options.Data = options.DATA,
    landing: options.Landing = None,
    to: options.Tables = None,
    root: options.Root = "inflight",
    master: options.Master = options.MASTER,
    once: options.Once = False,
    every: options.Every = options.EVERY_S,
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
    landing, to = _location(data, landing, "landing"), _location(data, to, "tables")
    exported = _serve(metrics)  # before Spark: a wrong port is told at once
    _for_spark(to)
    _present(_for_spark(landing), "name that of `inflight fleet collect` with --data or --landing")
    with _only_writer(to), stop_event() as stopping, _spark("tables", master, partitions, conf) as spark:
        from inflight_tools.fleet.spark.guard import advice
        from inflight_tools.fleet.spark.stream import start

        watch = Watch(Landing(spark, landing, to))

        def begin():
            nonlocal new_checkpoint
            query = start(spark, landing, to, root, every, once, files, new_checkpoint)
            new_checkpoint = False  # not again when there is space
            log(f"landing files in {landing} go into the tables in {to}")
            return query

        try:
            go_on(begin, watch, stopping, as_json, (to, landing, tempfile.gettempdir()), exported, once)
        except RuntimeError as e:
            raise RuntimeError(f"{advice(spark, to)}{e}") from None


def _moving(make):
    """The command that moves files by make(folder of the landing files, Objects, keep)."""

    def main(
        uri: Annotated[
            str,
            typer.Argument(help="folder of object storage: s3://bucket/folder; its settings are in the environment"),
        ],
        data: options.Data = options.DATA,
        landing: options.Landing = None,
        keep_moved: Annotated[
            bool, typer.Option("--keep-moved", help="keep what was moved, in another folder")
        ] = False,
        once: options.Once = False,
        every: options.Every = options.EVERY_S,
        as_json: options.Json = False,
        metrics: options.Metrics = None,
    ):
        folder = options.local_folder(landing) if landing else data / "landing"
        with stop_event() as stopping:
            transfer.move(
                lambda objects: make(folder, objects, keep_moved),
                *(uri, stopping, once, every, as_json, metrics),
            )

    return main


app.command(
    "upload",
    epilog=epilog("fleet upload s3://bucket/landing --data telemetry"),
    help="""Moves finished landing files into object storage, until it is stopped or --once. A file is deleted here
    after it was read back from there and compared; --keep-moved moves it into the folder `uploaded` of the landing
    folder instead. It may be killed at any time: the next run continues.""",
)(_moving(Upload))
app.command(
    "download",
    epilog=epilog("fleet download s3://bucket/landing --data telemetry"),
    help="""Downloads landing files from object storage for `tables`, each exactly once, until it is stopped or --once.
    The object is deleted afterwards; --keep-moved moves it into the folder `downloaded` beside the others instead. It
    may be killed at any time: the next run continues.""",
)(_moving(partial(Download, say=log)))


def _summary(facts):
    shown = Table(title="The fleet", title_justify="left", show_header=False)
    fleet = facts["fleet"]
    names = ("devices", "accepted", "delivered", "lost", "given_up", "on_way", "on_device", "guessed")
    for name in (*names, "doubled", "repeated", "dead_letters", "restarts"):
        shown.add_row(name.replace("_", " "), f"{fleet[name]:,}")
    return shown


@app.command(epilog=epilog("fleet report --data telemetry --device attic", "3 with --fail-on: messages are lost"))
def report(
    data: options.Data = options.DATA,
    landing: options.Landing = None,
    of: options.Tables = None,
    root: options.Root = "inflight",
    out: Annotated[Path | None, options.out("report.html in --data")] = None,
    device: options.Devices = None,
    since: options.Since = None,
    until: options.Until = None,
    grace: options.Grace = options.GRACE_S,
    retired: options.Retired = None,
    fail_on: Annotated[
        FailOn | None, typer.Option(help="end with exit status 3 if messages are lost, also if only by age")
    ] = None,
    as_json: options.Json = False,
):
    """Writes one HTML page: for each device, which messages were accepted, and where each of them is. It shows the
    measurements of the devices that --device names, and what has changed since the report that it replaces. --json
    prints all figures."""
    out = out or data / "report.html"
    landing, of = _locations(data, landing, of)
    now = time.time()
    how = dict(zip(("since", "until"), _span(since, until, now), strict=True)) | {"retired": retired or []}
    with querying():
        from inflight_tools.fleet.query.facts import gather
        from inflight_tools.fleet.report import change, render

        # Before the tables: what is read meanwhile counts here.
        before = {"unread": LandingFiles(landing, of).unread(), "counters": load(landing)}
        facts = gather(of, root, device or [], grace_s=grace, now=now, **before, **how)
        changed = change(out, facts)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(render(facts, changed=changed), encoding="utf-8")
    if as_json:
        print(json.dumps(facts | {"change": changed}, allow_nan=False))
    else:
        Console().print(_summary(facts))
    log(f"{out}: {out.stat().st_size:,} bytes")
    if fail_on and facts["fleet"]["lost"]:
        raise typer.Exit(_FAILED_ON)


@app.command(epilog=epilog("fleet check --data telemetry --since 24h", "or more of something than its option says"))
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
    max_dead_letters: Annotated[int, _most("dead letters")] = 0,
    max_nearly_full: Annotated[int, _most("devices whose journal is nearly full")] = 0,
    max_behind: Annotated[int, _most("collectors that have not shown for ten minutes that they have received all")] = 0,
    max_stale: Annotated[int, _most("landing files that are not in the tables after ten minutes")] = 0,
    as_json: options.Json = False,
):
    """Prints one line for a cron job, and ends with exit status 1 if there is more of something than its option allows.
    The figures are those of the report, and --since limits them: what was lost long ago is no alarm today. It needs no
    Spark."""
    landing, of = _locations(data, landing, of)
    now = time.time()
    start, _ = _span(since, None, now)
    with querying():
        from inflight_tools.fleet.monitoring.alarms import Check
        from inflight_tools.fleet.query.facts import totals

        unread = LandingFiles(landing, of).unread()  # before the tables
        facts = totals(of, root, grace_s=grace, now=now, unread=unread, since=start, retired=retired or [])
    most = {"silent": max_silent, "lost": max_lost, "dead_letters": max_dead_letters, "nearly_full": max_nearly_full}
    found = Check(facts, most | {"behind": max_behind, "stale": max_stale})
    print(json.dumps(found.figures | {"alarms": found.alarms}) if as_json else found.line())
    if found.alarms:
        raise typer.Exit(1)


@app.command(epilog=epilog("fleet serve --data telemetry"))
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
    landing, of = _locations(data, landing, of)
    with querying():
        from inflight_tools.fleet.console.access import Access
        from inflight_tools.fleet.console.live import Live
        from inflight_tools.fleet.console.server import Console as Pages

        host, port = address(listen, "--listen")
        password = viewer_password_file and viewer_password_file.read_text(encoding="utf-8").rstrip("\r\n")
        if viewer_password_file and not password:
            raise ValueError(f"{viewer_password_file} has no password")
        access = Access(host, password, proxy_header, proxy)
        pages = Pages(host, port, Live(landing, of, root, grace_s=grace, retired=retired or []), access)
    shown = f"[{host}]" if ":" in host else host
    log(f"the fleet in {of} is at http://{shown}:{pages.server_port}/")
    with stop_event() as stopping, pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        stopping.wait()
        pages.shutdown()


@app.command(
    epilog=epilog("fleet where attic 1234 --data telemetry", "3 the message is not in the tables: the output says why")
)
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
    landing, of = _locations(data, landing, of)
    found_by.run(device, number, epoch, landing, of, root, grace, retired or [], as_json)


def _oldest(keep, option):
    """The datetime before which rows are deleted. `keep`: what `option` gives, "90d" or "2y"; None: none are."""
    if keep is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,5}d|[1-9]\d?y", keep):
        raise typer.BadParameter(f"{option} {keep}: a number of days, as in 90d, or of years, as in 2y")
    days = int(keep[:-1]) * (365 if keep[-1] == "y" else 1)
    now = datetime.datetime.now(datetime.timezone.utc)
    return now - datetime.timedelta(days=min(days, (now - _FIRST).days))


@app.command(epilog=epilog("fleet compact --data telemetry --keep 90d"))
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
    oldest = [
        _oldest(given, option)
        for given, option in (
            (keep, "--keep"),
            (keep_measurements, "--keep-measurements"),
            (keep_minutes, "--keep-minutes"),
        )
    ]
    if oldest[2] and not (oldest[1] and oldest[2] <= oldest[1]):
        raise typer.BadParameter("--keep-minutes needs --keep-measurements, and a time at least as long")
    of = _for_spark(_location(data, of, "tables"))
    _present(of, "name the tables with --data or --of")
    _present(f"{of}/raw", "there are no tables yet, `inflight fleet tables` makes them")
    with _spark("compact", master, partitions, conf) as spark:
        from inflight_tools.fleet.spark.batch import Tables

        tables = Tables(spark, of)
        log(f"replaced {tables.merge(*oldest)} files by larger ones")
        tables.vacuum()


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


@app.command(epilog=epilog("fleet export folder --data telemetry"))
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
        bool,
        typer.Option("--undated", help="with --follow: readings without a time at once, not when they are dated"),
    ] = False,
    once: options.Once = False,
    every: options.Every = options.EVERY_S,
    as_json: options.Json = False,
):
    """Writes Parquet for other tools: aggregates/size=minute|hour|day, devices (accepted, delivered, lost, health), and
    missing: the numbers that have not arrived, each with its place. With --follow it writes files with measurements for
    a database: each measurement once, though it may be killed at any time."""
    if follow:
        if since or until:
            raise typer.BadParameter("--follow exports all: leave --since and --until out")
        _follow(options.local_folder(to, "TO"), _locations(data, landing, of)[1], form, undated, once, every, as_json)
        return
    if form or undated or once:
        raise typer.BadParameter("--format, --undated and --once go with --follow")
    to = _named(to)
    landing, of = _locations(data, landing, of)
    now = time.time()
    times = _span(since, until, now)
    with querying():
        from inflight_tools.fleet.query import views
        from inflight_tools.fleet.query.database import Database
        from inflight_tools.fleet.query.export import write

        unread = LandingFiles(landing, of).unread()  # before the tables
        with Database(of) as database:
            views.judge(database, now, grace, retired or [], summary(unread, now)["stale"] > 0, *times)
            write(database, to)
    log(f"aggregates, devices and missing numbers are in {to}")


@app.command(epilog=epilog("fleet history --home-assistant http://homeassistant.local:8123 --token-file token"))
def history(
    home_assistant: Annotated[str, typer.Option(help="URL of Home Assistant")],
    token_file: Annotated[Path, typer.Option(help="file with a long-lived access token of an administrator")],
    data: options.Data = options.DATA,
    of: options.Tables = None,
    since: options.Since = None,
    until: options.Until = None,
    late: Annotated[int, typer.Option(min=1, help="seconds after which a reading is late")] = 300,
    as_json: options.Json = False,
):
    """Imports readings that arrived late into Home Assistant's statistics, at their true time: mean, least and most of
    each hour. Again is no harm."""
    _, of = _locations(data, None, of)
    now = time.time()
    times = _span(since, until, now)
    try:
        token = token_file.read_text().strip()
    except (OSError, ValueError):
        raise failure(f"{token_file} cannot be read: write the token into it, which Home Assistant makes") from None
    try:
        from inflight_tools.fleet.home_assistant import HomeAssistant, Refused, hours, write
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


@app.command(epilog=epilog("fleet pipeline --broker broker.example --data telemetry"))
@options.spread
def pipeline(
    at: options.BrokerOptions,
    data: options.Data = options.DATA,
    master: options.Master = options.MASTER,
    age: options.Age = options.AGE_S,
    every: options.Every = options.EVERY_S,
    metrics: options.Metrics = None,
):
    """Runs `collect` and `tables` together, until Ctrl-C. This is enough for a small fleet. On a terminal the last line
    tells how they do."""
    with failing(ValueError, OSError):  # before Spark starts
        root = find_broker(at)[0].root
    collect = ["collect", "--landing", str(data / "landing"), "--age", str(age)]
    for name, value in (vars(at) | {"root": root}).items():
        collect += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    spark = ["tables", "--root", root, "--data", str(data), "--master", master, "--every", str(every)]
    if metrics:
        try:
            places = both(metrics)
        except ValueError as e:
            raise typer.BadParameter(str(e)) from None
        for words, place in zip((collect, spark), places, strict=True):
            words += ["--metrics", place]
    if CONSOLE.is_terminal:  # what becomes one line
        collect += ["--json", "--report", str(_STATUS_S)]
        spark += ["--json"]
    _for_spark(str(data.absolute()))
    make_folder(data / "landing")  # both children need it
    landing = LandingFiles(data / "landing", data / "tables")
    this = [sys.executable, "-m", "inflight_tools", "fleet"]
    commands = [[*this, *words] for words in (collect, spark)]
    with stop_event() as stopping:
        raise typer.Exit(together.run(commands, together.Status(lambda: len(landing.unread())), CONSOLE, stopping))
