"""How the time of a micro-batch grows with history and with the number of devices; and what a small one costs."""

import itertools
import statistics
import time

from tools.bench.pipeline.landing import MEASUREMENTS, ROOT, bytes_below, deliveries, land
from tools.bench.pipeline.memory import Peaks
from tools.bench.pipeline.stages import lines_of, spark_in, timed

BATCH = 5000  # deliveries
_WARM_UP = 2  # batches
_SMALL = 50  # deliveries
_SMALL_DEVICES = 20
_SKETCHED = 20  # latencies of each device in an invented ledger
_FIRST_NUMBER = {  # its columns, in SQL
    "device": "lower(lpad(hex(id), 12, '0'))",
    "epoch": "7L",
    "part": "0L",
    "ranges": "array(named_struct('lo', 0L, 'hi', 0L))",
    "repeated": "0L",
    "first_received": "timestamp_millis(1760000000000)",
    "last_received": "timestamp_millis(1760000000000)",
    "measurements": f"{MEASUREMENTS}L",
    "dead_letters": "0L",
    "odd_clock": "0L",
    "live": "0L",
    "latency": "kll_sketch_agg_double(latency)",
}


def measure(folder, batches, devices):
    """Runs the query with `batches` micro-batches, each with one landing file of BATCH deliveries; then merges."""
    lines = deliveries(2**62, devices)
    for _ in range(batches):
        land(folder / "landing", itertools.islice(lines, BATCH))
    with spark_in(folder, {"spark.sql.streaming.numRecentProgressUpdates": batches + 10}) as spark:
        from inflight_tools.fleet.spark.batch import Tables
        from inflight_tools.fleet.spark.stream import start

        tables = Tables(spark, str(folder / "tables"))
        query = start(spark, str(folder / "landing"), str(folder / "tables"), ROOT, once=True, files=1)
        ledger = _watch(query, folder / "tables/ledger")
        progress = [p for p in query.recentProgress if p["numInputRows"]]
        ledger_rows = tables.ledger.read().count()
        merge_s, merged = timed(tables.merge)
    seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in progress]
    if len(seconds) != batches:
        raise RuntimeError(f"{batches} files became {len(seconds)} micro-batches")
    figures = {f"a batch, {part} fifth, s": median for part, median in _fifths(seconds).items()}
    if ledger:
        figures["ledger, first and largest seen, bytes"] = f"{ledger[0]:,} and {max(ledger):,}"
    figures["rows of the ledger"] = ledger_rows
    if log := _newest_log(folder / "tables/_checkpoint/sources/0"):
        figures["Spark's list of files read, bytes"] = log
    figures[f"compact: {merged} files merged, s"] = merge_s
    return {f"{batches} batches of {BATCH:,} deliveries": figures}


def _watch(query, ledger):
    """Waits until the query ends. Returns the ledger's bytes, sampled after (almost) each batch."""
    seen = {}
    while not query.awaitTermination(0.3):
        last = query.lastProgress
        if last:
            seen[last["batchId"]] = _steady_bytes(ledger)
    return [size for size in seen.values() if size]


def _steady_bytes(folder):
    """Bytes below `folder`; 0 if a merge removes files meanwhile."""
    try:
        return bytes_below(folder)
    except FileNotFoundError:
        return 0


def _newest_log(folder):
    """Bytes of the last file in which Spark lists every file that it has read. It is rewritten every ten batches."""
    compacted = sorted(folder.glob("*.compact"), key=lambda path: int(path.stem))
    return compacted[-1].stat().st_size if compacted else 0


def _fifths(seconds):
    """Medians of the first, the middle and the last fifth, without the warm-up."""
    seconds = seconds[min(_WARM_UP, len(seconds) - 1) :]
    size = max(1, len(seconds) // 5)
    middle = (len(seconds) - size) // 2
    parts = {"first": seconds[:size], "middle": seconds[middle : middle + size], "last": seconds[-size:]}
    return {name: statistics.median(part) for name, part in parts.items()}


def measure_devices(folder, devices):
    """A micro-batch of BATCH deliveries, if the ledger has `devices` devices."""
    land(folder / "landing", itertools.islice(deliveries(2**62, devices, before=devices), BATCH))
    with spark_in(folder) as spark:
        from inflight_tools.fleet.spark.batch import Tables, take

        root = str(folder / "tables")
        tables = Tables(spark, root)
        tables.create()
        tables.ledger.write(_known(spark, devices), 0)
        seconds = []
        for batch in (1, 2, 3):
            lines = lines_of(spark, folder / "landing")
            seconds.append(timed(take, lines, batch, root, ROOT)[0])
        merge_s, _ = timed(tables.ledger.merge, 3)
    figures = {
        f"a batch of {BATCH:,} deliveries, s": min(seconds[1:]),
        "ledger, bytes per device": bytes_below(folder / "tables/ledger") / devices,
        "its merge, each 16 batches, s": merge_s,
    }
    return {f"{devices:,} devices": figures}


def measure_small(folder, batches):
    """The processor time of `batches` micro-batches of _SMALL deliveries: of this process and of those that it has
    started."""
    lines, seconds = deliveries(2**62, _SMALL_DEVICES), []
    with spark_in(folder) as spark, Peaks() as peaks:
        from inflight_tools.fleet.spark.batch import Tables, take

        root = str(folder / "tables")
        Tables(spark, root).create()
        for batch in range(batches):
            landing = folder / f"landing-{batch}"
            land(landing, itertools.islice(lines, _SMALL))
            before = peaks.processor_s() + time.process_time()
            take(lines_of(spark, landing), batch, root, ROOT)
            seconds.append(peaks.processor_s() + time.process_time() - before)
    figures = {f"processor time of a batch, {part} fifth, s": median for part, median in _fifths(seconds).items()}
    return {f"{batches} batches of {_SMALL} deliveries": figures}


def _known(spark, devices):
    """A ledger in which each device has sent number 0."""
    from pyspark.sql import functions
    from pyspark.sql.types import StructType

    from inflight_tools.fleet.columns import LEDGER

    rows = spark.range(devices).selectExpr("id", f"explode(sequence(1, {_SKETCHED})) AS n")
    rows = rows.selectExpr("id", "pmod(xxhash64(id, n), 1900) + 0d AS latency").groupBy("id")
    found = rows.agg(*(functions.expr(sql).alias(name) for name, sql in _FIRST_NUMBER.items()))
    return found.select(*StructType.fromDDL(LEDGER).names)
