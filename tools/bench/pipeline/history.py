"""How the time of a micro-batch grows with history and with the number of devices; and what a small one costs."""

import itertools
import statistics
import time

from tools.bench.pipeline.landing import ROOT, bytes_below, deliveries, land
from tools.bench.pipeline.memory import Peaks
from tools.bench.pipeline.stages import lines_of, spark_in, take_all, timed

BATCH = 5000  # deliveries
_WARM_UP = 2  # batches
_SMALL = 50  # deliveries
_SMALL_DEVICES = 20


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
        query.awaitTermination()
        progress = [p for p in query.recentProgress if p["numInputRows"]]
        ledger_rows = tables.ledger.read().count()
        merge_s, merged = timed(tables.merge)
    seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in progress]
    if len(seconds) != batches:
        raise RuntimeError(f"{batches} files became {len(seconds)} micro-batches")
    fifths = _fifths("a batch", seconds)
    more = {"rows of the ledger": ledger_rows, f"compact: {merged} files merged, s": merge_s}
    return {f"{batches} batches of {BATCH:,} deliveries": fifths | more}


def _fifths(what, seconds):
    """{row: median} of the first, the middle and the last fifth, without the warm-up."""
    seconds = seconds[min(_WARM_UP, len(seconds) - 1) :]
    size = max(1, len(seconds) // 5)
    middle = (len(seconds) - size) // 2
    parts = {"first": seconds[:size], "middle": seconds[middle : middle + size], "last": seconds[-size:]}
    return {f"{what}, {name} fifth, s": statistics.median(part) for name, part in parts.items()}


def measure_devices(folder, devices):
    """A micro-batch of BATCH deliveries, if the ledger has `devices` devices."""
    land(folder / "known", deliveries(devices, devices))
    land(folder / "landing", itertools.islice(deliveries(2**62, devices, before=devices), BATCH))
    with spark_in(folder) as spark:
        from inflight_tools.fleet.spark.batch import Tables, take

        root = str(folder / "tables")
        take_all(spark, folder / "known", root)
        lines = lines_of(spark, folder / "landing")
        seconds = [timed(take, lines, batch, root, ROOT)[0] for batch in (1, 2, 3)]
        merge_s, _ = timed(Tables(spark, root).ledger.merge, 3)
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
    return {f"{batches} batches of {_SMALL} deliveries": _fifths("processor time of a batch", seconds)}
