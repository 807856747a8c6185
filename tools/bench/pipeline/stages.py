"""The throughput of each stage with the same landing files. The ceiling: Spark reads them and counts lines."""

import shutil
import statistics
import time
from contextlib import contextmanager
from operator import truediv

from tools.bench.pipeline.landing import MEASUREMENTS, ROOT, bytes_below, deliveries, land
from tools.bench.pipeline.memory import Peaks
from tools.bench.pipeline.peers import PEERS


@contextmanager
def spark_in(folder, options=None):
    """Spark with the pipeline's settings, without its log. At the end its JVM has ended."""
    from inflight_tools.fleet.spark.session import session

    spark = session("inflight bench", folder / "spark", options=options)
    spark.sparkContext.setLogLevel("ERROR")
    gateway = spark.sparkContext._gateway
    try:
        yield spark
    finally:
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()  # this makes the JVM end
        gateway.proc.wait(60)


def timed(work, *args):
    """Returns (seconds, result of `work`)."""
    start = time.perf_counter()
    result = work(*args)
    return time.perf_counter() - start, result


def lines_of(spark, path):
    text = spark.read.option("lineSep", "\n").text(str(path))
    return text.selectExpr("CAST(value AS BINARY) AS value")


def _parse_unusual(spark, files, _):
    """The same lines with a blank at the end, so that none is read by columns."""
    _read(lines_of(spark, files).selectExpr("concat(value, CAST(' ' AS BINARY)) AS value"))


def _read(lines):
    from pyspark.sql.pandas.types import from_arrow_schema

    from inflight_tools.fleet.lines.reader import reader
    from inflight_tools.fleet.lines.rows import SCHEMA

    lines.mapInArrow(reader(ROOT), from_arrow_schema(SCHEMA)).count()


def take_all(spark, files, tables):
    """Makes new tables of the landing files, in one micro-batch."""
    from inflight_tools.fleet.spark.batch import Tables, take

    Tables(spark, str(tables)).create()
    take(lines_of(spark, files), 0, str(tables), ROOT)


_CEILING, _TAKE = "ceiling: Spark reads the files and counts", "all tables"
_STAGES = {
    _CEILING: lambda spark, files, _: lines_of(spark, files).count(),
    "read and parse": lambda spark, files, _: _read(lines_of(spark, files)),
    "the same, telemetry that is unusual": _parse_unusual,
    _TAKE: take_all,
    **PEERS,
}


def _empty(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def measure(folder, millions, devices, runs):
    """The figures for `millions` of measurement rows in one micro-batch, with empty tables in `folder`. Medians of
    `runs` runs; the stages alternate."""
    messages = max(devices, round(millions * 1e6 / MEASUREMENTS))
    many, landed = land(folder / "landing", deliveries(messages, devices))
    land(folder / "warm-up", deliveries(devices, devices))
    places = {name: folder / f"tables-{k}" for k, name in enumerate(_STAGES)}
    seconds, cpu_s = ({name: [] for name in _STAGES} for _ in range(2))
    with spark_in(folder) as spark, Peaks() as peaks:
        for work in _STAGES.values():
            work(spark, folder / "warm-up", _empty(folder / "warm-up-tables"))
        for _ in range(runs):
            for name, work in _STAGES.items():
                tables = _empty(places[name])
                before = peaks.processor_s() + time.process_time()
                seconds[name].append(timed(work, spark, folder / "landing", tables)[0])
                cpu_s[name].append(peaks.processor_s() + time.process_time() - before)
    report_s, facts = timed(_report, places[_TAKE])
    again_s, _ = timed(_report, places[_TAKE])
    taken = {name: statistics.median(found) for name, found in seconds.items()}
    if facts["fleet"]["delivered"] != messages or facts["fleet"]["measurements"] != MEASUREMENTS * messages:
        raise RuntimeError(f"of {messages} messages {facts['fleet']['delivered']} are in the tables")
    sizes = {name: bytes_below(places[_TAKE] / name) for name in ("raw", "measurements", "minutes", "ledger")}
    rows = MEASUREMENTS * messages
    figures = {
        **{row: f"{many / taken[row]:,.0f} ({taken[_CEILING] / taken[row]:.0%})" for row in _STAGES},
        "all tables, rows of measurements/s": rows / taken[_TAKE],
        **{f"{row}, µs of processor per delivery": 1e6 * statistics.median(cpu_s[row]) / many for row in cpu_s},
        **{
            f"processor, all tables to {name}": f"{statistics.median(map(truediv, cpu_s[_TAKE], cpu_s[name])):.2f}"
            for name in PEERS
        },
        "all tables, s": taken[_TAKE],
        "first report, s": report_s,
        "the next ones, s": again_s,
        "peak memory of the JVM, MB": peaks.jvm / 1e6,
        "peak memory of the largest Python worker, MB": peaks.worker / 1e6,
        "landed, bytes per delivery": landed / many,
        **{f"{table}, bytes per message": sizes[table] / messages for table in ("raw", "measurements", "minutes")},
        "ledger, bytes per device": sizes["ledger"] / devices,
    }
    return {f"{rows:,} rows": figures}


def _report(tables):
    from inflight_tools.fleet.query.facts import gather
    from inflight_tools.fleet.report import render

    facts = gather(str(tables), ROOT)
    render(facts)
    return facts
