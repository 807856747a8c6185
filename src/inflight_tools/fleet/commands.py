"""From landing files to tables and a report: Spark, on this machine or on a cluster."""

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inflight_tools.epilog import epilog
from inflight_tools.fleet.collect import command
from inflight_tools.fleet.spark.session import PARTITIONS

CONSOLE = Console(stderr=True)
FOLDER = typer.Option(Path("telemetry"), "--data", help="folder of landing/ and tables/, unless they are named")
LANDING = typer.Option(None, help="folder or URI of the landing files")
PLACE = typer.Option(None, help="folder or URI of the tables: hdfs://..., s3a://..., what Spark's Hadoop reads")
ROOT = typer.Option("inflight", help="first levels of the devices' topics")
MASTER = typer.Option("local[*]", help="Spark's master: local[*], spark://host:7077, yarn, k8s://...")
CONF = typer.Option([], help="a setting of Spark's own, name=value; can be repeated")
GRACE = typer.Option(3600, min=0, help="seconds after which a number that was overtaken counts as lost")
PARTS = typer.Option(PARTITIONS, "--partitions", min=1, help="of a shuffle: two for each core")

app = typer.Typer(no_args_is_help=True, help="Collects what devices publish, and proves from it what arrived.")


app.command("collect", epilog=epilog("fleet collect --broker broker.example --landing telemetry/landing"))(command.main)


def say(text):
    CONSOLE.print(f"[dim]{time.strftime('%H:%M:%S')}[/dim]  {text}", soft_wrap=True, highlight=False)


@contextlib.contextmanager
def _spark(name, master, partitions, conf):
    """Spark, for as long as we need it; what goes wrong is told in one line."""
    try:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException
    except ImportError:
        advice = Text("pip install 'inflight[fleet]', or `make setup-pipeline` in a checkout")
        CONSOLE.print("[bold red]FAILED[/bold red]: Spark is not installed:", advice, soft_wrap=True)
        raise typer.Exit(1) from None
    from inflight_tools.fleet.spark.session import session
    from inflight_tools.fleet.spark.stream import WrongTables

    if not master.startswith(("local", "spark://", "yarn", "k8s://")):
        raise typer.BadParameter(f"--master {master}: local[*], spark://host:7077, yarn or k8s://https://host:port")
    try:
        options = dict(pair.split("=", 1) for pair in conf)
    except ValueError:
        raise typer.BadParameter("--conf wants name=value") from None
    with tempfile.TemporaryDirectory(prefix="inflight-spark-", ignore_cleanup_errors=True) as folder:
        spark = None
        try:
            spark = session(f"inflight {name}", Path(folder), master, partitions, options)
            yield spark
        except (WrongTables, RuntimeError, OSError, PySparkException, Py4JJavaError) as e:
            text = e.java_exception.getMessage() if isinstance(e, Py4JJavaError) else str(e)
            why = Text((text or type(e).__name__).splitlines()[0][:500])
            CONSOLE.print("[bold red]FAILED[/bold red]:", why, soft_wrap=True)
            raise typer.Exit(1) from None
        finally:
            if spark:
                spark.stop()


def _stopping():
    """An Event that is set when we are told to stop."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    return told


def _place(data, given, name):
    """Where landing files or tables are: as given, or below the folder of all."""
    return given if given else str((data / name).absolute())


def _tell(batch, deliveries, seconds, as_json):
    if as_json:
        print(json.dumps({"batch": batch, "deliveries": deliveries, "seconds": seconds}), flush=True)
    else:
        say(f"batch {batch}: {deliveries} deliveries in {seconds:.1f} s")


def _follow(query, stopping, as_json):
    """Says what each batch took, until the query ends or we are told to stop."""
    told = -1
    running = True
    while running:
        running = query.isActive and not stopping.wait(0.2)
        for progress in query.recentProgress:  # also after its end: the last batches
            if progress["batchId"] > told and progress["numInputRows"]:
                told = progress["batchId"]
                _tell(told, progress["numInputRows"], progress["durationMs"]["triggerExecution"] / 1000, as_json)
    if query.isActive:
        query.stop()
    if query.exception():
        raise RuntimeError(f"the query ended: {query.exception()}")


@app.command(epilog=epilog("fleet tables --data telemetry --once"))
def tables(
    data: Path = FOLDER,
    landing: str = LANDING,
    to: str = PLACE,
    root: str = ROOT,
    master: str = MASTER,
    once: bool = typer.Option(False, help="what is there, and then an end: for a cron job"),
    every: float = typer.Option(10, min=0.1, help="seconds from one micro-batch to the next"),
    files: int = typer.Option(None, min=1, help="landing files in a micro-batch, at most; else 256 MB of them"),
    as_json: bool = typer.Option(False, "--json", help="print a line of JSON for each batch"),
    partitions: int = PARTS,
    conf: list[str] = CONF,
):
    """Landing files into tables, for ever or --once. Kill it whenever you like: it goes on where it was, and no row is
    lost or stands twice."""
    landing, to = _place(data, landing, "landing"), _place(data, to, "tables")
    if "://" not in landing:
        Path(landing).mkdir(parents=True, exist_ok=True)
    stopping = _stopping()
    with _spark("tables", master, partitions, conf) as spark:
        from inflight_tools.fleet.spark.stream import start

        query = start(spark, landing, to, root, every, once, files)
        say(f"landing files of {landing} go into the tables in {to}")
        _follow(query, stopping, as_json)


def _summary(facts):
    shown = Table(title="The fleet", title_justify="left", show_header=False)
    fleet = facts["fleet"]
    for name in ("devices", "accepted", "delivered", "lost", "late", "doubled", "repeated", "dead_letters", "restarts"):
        shown.add_row(name.replace("_", " "), f"{fleet[name]:,}")
    return shown


@app.command(epilog=epilog("fleet report --data telemetry --device attic"))
def report(
    data: Path = FOLDER,
    of: str = PLACE,
    root: str = ROOT,
    out: Path = typer.Option(None, help="the page; default: report.html in the folder"),
    device: list[str] = typer.Option([], help="show the measurements of this one as well; can be repeated"),
    grace: float = GRACE,
    as_json: bool = typer.Option(False, "--json", help="print all figures as JSON instead of a summary"),
    master: str = MASTER,
    partitions: int = PARTS,
    conf: list[str] = CONF,
):
    """What became of each message, as one HTML page that needs nothing but a browser."""
    out = out or data / "report.html"
    with _spark("report", master, partitions, conf) as spark:
        from inflight_tools.fleet.report import render
        from inflight_tools.fleet.spark.batch import Tables
        from inflight_tools.fleet.spark.facts import gather

        facts = gather(Tables(spark, _place(data, of, "tables")), root, grace, device)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(render(facts), encoding="utf-8")
    if as_json:
        print(json.dumps(facts))
    else:
        Console().print(_summary(facts))
    say(f"{out}: {out.stat().st_size:,} bytes")


@app.command(epilog=epilog("fleet compact --data telemetry"))
def compact(
    data: Path = FOLDER, of: str = PLACE, master: str = MASTER, partitions: int = PARTS, conf: list[str] = CONF
):
    """Merges the small files of many batches into larger ones, while `tables` runs or not. Nothing is changed in
    them."""
    with _spark("compact", master, partitions, conf) as spark:
        from inflight_tools.fleet.spark.batch import Tables

        say(f"{Tables(spark, _place(data, of, 'tables')).merge()} folders went into larger ones")


@app.command(epilog=epilog("fleet export folder --data telemetry"))
def export(
    to: str = typer.Argument(help="folder or URI"),
    data: Path = FOLDER,
    of: str = PLACE,
    grace: float = GRACE,
    master: str = MASTER,
    partitions: int = PARTS,
    conf: list[str] = CONF,
):
    """Writes what the tables add up to as Parquet for other tools: aggregates/size=minute|hour|day, and devices,
    with what became of the numbers of each journal."""
    with _spark("export", master, partitions, conf) as spark:
        from inflight_tools.fleet.spark import views
        from inflight_tools.fleet.spark.batch import Tables

        found = Tables(spark, _place(data, of, "tables"))
        for size in views.SIZES:
            views.aggregates(found, size).write.mode("overwrite").parquet(f"{to}/aggregates/size={size}")
        devices = views.devices(found, time.time() - grace).drop("latency")  # a sketch, which Spark alone can read
        devices.write.mode("overwrite").parquet(f"{to}/devices")
    say(f"aggregates and devices are in {to}")


@app.command(epilog=epilog("fleet pipeline --broker broker.example --data telemetry"))
def pipeline(
    broker: str = typer.Option(None, help="host or host:port"),
    config: Path = typer.Option(None, help="a device's configuration file: its broker, user, root, TLS"),
    data: Path = FOLDER,
    root: str = ROOT,
    master: str = MASTER,
    every: float = typer.Option(10, min=0.1, help="seconds from one micro-batch to the next"),
):
    """`collect` and `tables` together, until Ctrl-C: all that a small fleet needs."""
    collect = ["collect", "--root", root, "--landing", str(data / "landing")]
    collect += ["--broker", broker] if broker else []
    collect += ["--config", str(config)] if config else []
    spark = ["tables", "--root", root, "--data", str(data), "--master", master, "--every", str(every)]
    this = [sys.executable, "-m", "inflight_tools", "fleet"]
    running = [subprocess.Popen([*this, *words], start_new_session=True) for words in (collect, spark)]
    stopping = _stopping()
    while all(child.poll() is None for child in running) and not stopping.wait(0.2):
        pass
    for child in running:
        child.terminate()
    raise typer.Exit(max(abs(child.wait()) for child in running))
