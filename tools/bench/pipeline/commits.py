"""How the time of a commit, and of opening a table, grows with the batches in it. The commits name files that do not
exist, so only the table's log is measured."""

import json
import statistics

from inflight_tools.fleet.delta import BATCHES
from tools.bench.pipeline.stages import spark_in, timed

_STATS = json.dumps({"numRecords": 5000})


def _commit(table, batch, added):
    """As Table.write() does after Spark has written the files."""
    table.commit(table.open(), [added], [], (BATCHES, batch))


def measure(folder, batches):
    """Commits `batches` batches to one table, each with one file of 100 KB by name."""
    from deltalake.transaction import AddAction

    with spark_in(folder) as spark:
        from inflight_tools.fleet.spark.tables import Table

        table = Table(spark, folder, "rows", "received timestamp")
        table.create()
        seconds = []
        for batch in range(batches):
            added = AddAction(f"parts/{batch}-00000000/part-0.parquet", 100_000, {}, 0, True, _STATS)
            seconds.append(timed(_commit, table, batch, added)[0])
        opened = [timed(table.last_batch)[0] for _ in range(5)]
    few = max(1, batches // 20)
    return {
        f"{batches:,} batches, a file each": {
            "a commit, first twentieth, ms": 1000 * statistics.median(seconds[:few]),
            "a commit, last twentieth, ms": 1000 * statistics.median(seconds[-few:]),
            "the longest, ms": 1000 * max(seconds),
            "opening the table, ms": 1000 * statistics.median(opened),
        }
    }
