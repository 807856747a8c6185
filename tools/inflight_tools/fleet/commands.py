"""The commands `inflight fleet ...`: collector, tables, report. Spark runs on this machine or on a cluster."""

import contextlib
import datetime
import json
import queue
import re
import signal
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from inflight_tools.epilog import epilog
from inflight_tools.extras import not_installed
from inflight_tools.failure import print_failure, reason
from inflight_tools.fleet import together
from inflight_tools.fleet.collect import command
from inflight_tools.fleet.collect.counters import load
from inflight_tools.fleet.monitoring.option import BOTH, METRICS, both, serve_metrics
from inflight_tools.fleet.query.command import querying
from inflight_tools.fleet.query.times import span
from inflight_tools.fleet.spark.landing import STALE_S, Landing, LandingFiles, Watch, summary
from inflight_tools.fleet.spark.session import PARTITIONS
from inflight_tools.fleet.spark.storage import without_credentials
from inflight_tools.fleet.transfer import command as transfer
from inflight_tools.fleet.transfer.download import Download
from inflight_tools.fleet.transfer.upload import Upload
from inflight_tools.fleet.where import command as found_by

CONSOLE = Console(stderr=True)
FOLDER = typer.Option(Path("telemetry"), "--data", file_okay=False, help="folder of landing/ and tables/")
LANDING = typer.Option(None, help="folder or URI of the landing files; default: landing in that folder")
TABLES = typer.Option(
    None, help="folder or URI of the tables: hdfs://..., s3a://..., as Spark's Hadoop reads it; default: tables in it"
)
ROOT = typer.Option("inflight", help="first levels of the devices' topics")
MASTER = typer.Option("local[*]", help="Spark's master: local[*], spark://host:7077, yarn, k8s://...")
CONF = typer.Option([], help="a Spark property, name=value; can be repeated")
GRACE = typer.Option(3600, min=0, help="where nothing is proved: seconds after which a missing number is lost")
RETIRED = typer.Option([], help="a collector that never returns: what its session had is lost; can be repeated")
_STATUS_S = 2  # between the collector's reports on a terminal
_COUNT_S = 15  # between counts of unread landing files, for metrics
SINCE = typer.Option(None, help="only what was received then or later: 24h or 7d (ago), or 2026-03-01T08:00 (UTC)")
UNTIL = typer.Option(None, help="only what was received before that time, as --since")
PARTS = typer.Option(PARTITIONS, "--partitions", min=1, help="shuffle partitions: two for each core")

app = typer.Typer(no_args_is_help=True, help="Collects a fleet's messages, and proves which of them arrived.")
app.command("collect", epilog=epilog("fleet collect --broker broker.example --landing telemetry/landing"))(command.main)


def say(text):
    CONSOLE.print(f"[dim]{time.strftime('%H:%M:%S')}[/dim]  {text}", soft_wrap=True, highlight=False)


@contextlib.contextmanager
def _spark(name, master, partitions, conf):
    """A Spark session. An error ends the command with a message of one line."""
    try:
        from deltalake.exceptions import DeltaError
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException
    except ImportError:
        print_failure(CONSOLE, not_installed("Spark or Delta Lake", "fleet") + ", or `make setup-pipeline`")
        raise typer.Exit(1) from None
    from inflight_tools.fleet.delta import WrongTables, advice
    from inflight_tools.fleet.spark.session import session

    if not master.startswith(("local", "spark://", "yarn", "k8s://")):
        raise typer.BadParameter(f"--master {master}: local[*], spark://host:7077, yarn or k8s://https://host:port")
    try:
        options = dict(pair.split("=", 1) for pair in conf)
    except ValueError:
        raise typer.BadParameter("--conf needs name=value") from None
    with tempfile.TemporaryDirectory(prefix="inflight-spark-", ignore_cleanup_errors=True) as folder:
        spark = None
        try:
            spark = session(f"inflight {name}", Path(folder), master, partitions, options)
            yield spark
        except (WrongTables, DeltaError, RuntimeError, OSError, PySparkException, Py4JJavaError) as e:
            text = e.java_exception.getMessage() if isinstance(e, Py4JJavaError) else str(e)
            print_failure(CONSOLE, advice(text or "") + (text or type(e).__name__).splitlines()[0][:500])
            raise typer.Exit(1) from None
        finally:
            if spark:
                spark.stop()


def _stop_event():
    """An Event that SIGTERM and SIGINT set; and SIGHUP, when the terminal is closed, unless it is ignored (nohup)."""
    stopping = threading.Event()
    # Event.set() would wait for a lock for ever if a signal came while this thread is within wait(): put() takes none.
    signals = queue.SimpleQueue()
    threading.Thread(target=lambda: (signals.get(), stopping.set()), daemon=True).start()
    numbers = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    for number in numbers:
        signal.signal(number, lambda *_: signals.put(None))
    return stopping


def _location(data, given, name):
    """Folder or URI of the landing files or the tables: as given, else below `data`."""
    return _named(given) if given else str((data / name).absolute())


def _named(place):
    """`place`, a folder or a URI. Ends the command if it is a URI with credentials."""
    try:
        return without_credentials(place)
    except ValueError as e:
        print_failure(CONSOLE, str(e))
        raise typer.Exit(1) from None


def _locations(data, landing, of):
    """(landing files, tables), see _location(). Ends the command if both are to be in a folder `data` that does not
    exist: its name may be wrong."""
    if not (landing or of) and not data.is_dir():
        print_failure(CONSOLE, f"there is no folder {data}: name that of `inflight fleet collect` with --data")
        raise typer.Exit(1)
    return _location(data, landing, "landing"), _location(data, of, "tables")


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
        say(f"batch {batch}: {deliveries} deliveries in {seconds:.1f} s")


def _alarm(watch):
    """Says how many landing files stay unread."""
    if stuck := watch.stuck():
        say(f"[bold red]ALARM[/bold red]: {stuck} landing files stay unread: is Spark too slow for them?")


def _serve(place):
    """Serves the metrics of `tables`, see serve_metrics()."""
    try:
        return serve_metrics(place, say, lambda module: module.TablesMetrics())
    except ValueError as e:
        raise typer.BadParameter(str(e)) from None
    except OSError as e:
        print_failure(CONSOLE, str(e))
        raise typer.Exit(1) from None


def _follow(query, watch, stopping, as_json, metrics=None):
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


@app.command(epilog=epilog("fleet tables --data telemetry --once"))
def tables(
    data: Path = FOLDER,
    landing: str = LANDING,
    to: str = TABLES,
    root: str = ROOT,
    master: str = MASTER,
    once: bool = typer.Option(False, "--once", help="process the present landing files and end: for a cron job"),
    every: float = typer.Option(10, min=0.1, help="seconds from one micro-batch to the next"),
    files: int = typer.Option(None, min=1, help="most landing files in a micro-batch; default: 256 MB of them"),
    new_checkpoint: bool = typer.Option(
        False, "--new-checkpoint", help="begin a new checkpoint, for tables that have lost theirs"
    ),
    as_json: bool = typer.Option(False, "--json", help="print a line of JSON for each batch"),
    metrics: str = METRICS,
    partitions: int = PARTS,
    conf: list[str] = CONF,
):
    """Writes landing files into tables, until it is stopped or --once. It may be killed at any time: the next run
    continues, and no row is lost or stored twice."""
    landing, to = _location(data, landing, "landing"), _location(data, to, "tables")
    if "://" not in landing:
        Path(landing).mkdir(parents=True, exist_ok=True)
    stopping = _stop_event()
    exported = _serve(metrics)  # before Spark: a wrong port is told at once
    with _spark("tables", master, partitions, conf) as spark:
        from inflight_tools.fleet.spark.guard import advice
        from inflight_tools.fleet.spark.stream import start

        watch = Watch(Landing(spark, landing, to))
        query = start(spark, landing, to, root, every, once, files, new_checkpoint)
        say(f"landing files in {landing} go into the tables in {to}")
        try:
            _follow(query, watch, stopping, as_json, exported)
        except RuntimeError as e:
            raise RuntimeError(f"{advice(spark, to)}{e}") from None


def _moving(make, kept):
    """The command that moves files by make(folder of the landing files, Objects, keep). kept: what --keep keeps."""

    def main(
        uri: str = typer.Argument(
            help="folder of object storage: s3://bucket/folder; its settings are in the environment"
        ),
        data: Path = FOLDER,
        landing: Path = typer.Option(None, help="folder of the landing files; default: landing in that folder"),
        keep: bool = typer.Option(False, "--keep", help=f"keep the {kept}"),
        once: bool = typer.Option(False, "--once", help="move the present files and end: for a cron job"),
        every: float = typer.Option(10, min=0.1, help="seconds from one look for files to the next"),
        as_json: bool = typer.Option(False, "--json", help="print a line of JSON for each report"),
        metrics: str = METRICS,
    ):
        transfer.move(
            lambda objects: make(landing or data / "landing", objects, keep),
            *(uri, _stop_event(), say, CONSOLE, once, every, as_json, metrics),
        )

    return main


app.command(
    "upload",
    epilog=epilog("fleet upload s3://bucket/landing --data telemetry"),
    help="""Moves finished landing files into object storage, until it is stopped or --once. A file is deleted here
    after it was read back from there and compared. It may be killed at any time: the next run continues.""",
)(_moving(Upload, "files, in the folder `uploaded` of the landing folder"))
app.command(
    "download",
    epilog=epilog("fleet download s3://bucket/landing --data telemetry"),
    help="""Moves landing files that `upload` has put into object storage into the folder of which `tables` makes
    tables, each exactly once, until it is stopped or --once. It may be killed at any time: the next run continues.""",
)(_moving(partial(Download, say=say), "objects, in the folder `downloaded` beside them"))


def _summary(facts):
    shown = Table(title="The fleet", title_justify="left", show_header=False)
    fleet = facts["fleet"]
    names = ("devices", "accepted", "delivered", "lost", "given_up", "on_way", "on_device", "guessed")
    for name in (*names, "doubled", "repeated", "dead_letters", "restarts"):
        shown.add_row(name.replace("_", " "), f"{fleet[name]:,}")
    return shown


@app.command(epilog=epilog("fleet report --data telemetry --device attic"))
def report(
    data: Path = FOLDER,
    landing: str = LANDING,
    of: str = TABLES,
    root: str = ROOT,
    out: Path = typer.Option(None, help="the page; default: report.html in the folder"),
    device: list[str] = typer.Option([], help="show this device's measurements, too; can be repeated"),
    since: str = SINCE,
    until: str = UNTIL,
    grace: float = GRACE,
    retired: list[str] = RETIRED,
    as_json: bool = typer.Option(False, "--json", help="print all figures as JSON instead of a summary"),
):
    """Writes one HTML page: for each device, which messages were accepted, and where each of them is."""
    out = out or data / "report.html"
    landing, of = _locations(data, landing, of)
    now = time.time()
    how = dict(zip(("since", "until"), _span(since, until, now), strict=True)) | {"retired": retired}
    with querying():
        from inflight_tools.fleet.query.facts import gather
        from inflight_tools.fleet.report import render

        # Before the tables: what is read meanwhile counts here.
        before = {"unread": LandingFiles(landing, of).unread(), "counters": load(landing)}
        facts = gather(of, root, grace, device, now=now, **before, **how)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(render(facts), encoding="utf-8")
    if as_json:
        print(json.dumps(facts, allow_nan=False))
    else:
        Console().print(_summary(facts))
    say(f"{out}: {out.stat().st_size:,} bytes")


@app.command(
    epilog=epilog("fleet where attic 1234 --data telemetry", "3 the message is not in the tables: the output says why")
)
def where(
    device: str = typer.Argument(help="its name, as in its topics"),
    number: int = typer.Argument(min=0, max=(1 << 32) - 1, help="the message's `seq`"),
    data: Path = FOLDER,
    landing: str = LANDING,
    of: str = TABLES,
    root: str = ROOT,
    epoch: int = typer.Option(None, min=0, help="the journal's `epoch`; default: that of the device's newest journal"),
    grace: float = GRACE,
    retired: list[str] = RETIRED,
    as_json: bool = typer.Option(False, "--json", help="print what is known as JSON"),
):
    """Tells where message NUMBER of DEVICE is, and its way: accepted, acknowledged, collected, in the tables. Or why it
    is missing, by the rules of the report. It needs no Spark."""
    found_by.run(
        *(device, number, epoch, *_locations(data, landing, of)),
        *(root, grace, retired, as_json),
    )


def _oldest(keep):
    """The datetime before which rows are deleted. `keep`: "90d"; None: none are."""
    if keep is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,5}d", keep):
        raise typer.BadParameter(f"--keep {keep}: a number of days, as in 90d")
    return datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=int(keep[:-1]))


@app.command(epilog=epilog("fleet compact --data telemetry --keep 90d"))
def compact(
    data: Path = FOLDER,
    of: str = TABLES,
    keep: str = typer.Option(None, help="delete deliveries in `raw` that were received before, for example, 90d"),
    master: str = MASTER,
    partitions: int = PARTS,
    conf: list[str] = CONF,
):
    """Merges small files of the tables into larger ones, and deletes files that no table has had for a day. The rows
    stay the same. `tables` and readers may run meanwhile."""
    oldest = _oldest(keep)
    _, of = _locations(data, None, of)
    with _spark("compact", master, partitions, conf) as spark:
        from inflight_tools.fleet.spark.batch import Tables

        tables = Tables(spark, of)
        say(f"replaced {tables.merge(oldest)} files by larger ones")
        tables.vacuum()


@app.command(epilog=epilog("fleet export folder --data telemetry"))
def export(
    to: str = typer.Argument(help="folder or URI"),
    data: Path = FOLDER,
    landing: str = LANDING,
    of: str = TABLES,
    since: str = SINCE,
    until: str = UNTIL,
    grace: float = GRACE,
    retired: list[str] = RETIRED,
):
    """Writes Parquet for other tools: aggregates/size=minute|hour|day, devices (accepted, delivered, lost, health), and
    missing: the numbers that have not arrived, each with its place."""
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
            views.judge(database, now, grace, retired, summary(unread, now)["stale"] > 0, *times)
            write(database, to)
    say(f"aggregates, devices and missing numbers are in {to}")


@app.command(epilog=epilog("fleet pipeline --broker broker.example --data telemetry"))
def pipeline(
    broker: command.Broker = None,
    config: command.Config = None,
    ca: command.Ca = None,
    cert: command.Cert = None,
    key: command.Key = None,
    websocket: command.Websocket = None,
    user: command.User = None,
    password_file: command.PasswordFile = None,
    data: Path = FOLDER,
    root: command.Root = None,
    master: str = MASTER,
    every: float = typer.Option(10, min=0.1, help="seconds from one micro-batch to the next"),
    protocol_level: command.Level = None,
    metrics: str = BOTH,
):
    """Runs `collect` and `tables` together, until Ctrl-C. This is enough for a small fleet. On a terminal the last line
    tells how they do."""
    try:  # before Spark starts
        place, _ = command.find_broker(broker, config, root, ca, cert, key, user, password_file, websocket)
    except (ValueError, OSError) as e:
        print_failure(CONSOLE, reason(e))
        raise typer.Exit(1) from None
    root = place.root
    given = {"broker": broker, "config": config, "ca": ca, "cert": cert, "key": key, "websocket": websocket}
    given |= {"user": user, "password-file": password_file, "protocol-level": protocol_level}
    collect = ["collect", "--root", root, "--landing", str(data / "landing")]
    collect += [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
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
    landing = LandingFiles(data / "landing", data / "tables")
    this = [sys.executable, "-m", "inflight_tools", "fleet"]
    commands = [[*this, *words] for words in (collect, spark)]
    raise typer.Exit(together.run(commands, together.Status(lambda: len(landing.unread())), CONSOLE, _stop_event()))
