"""The streaming query: landing files in, tables out."""

from .batch import take
from .guard import begin
from .storage import ARCHIVE

BATCH = 256 << 20  # most bytes of landing files: more may not fit into Spark's memory on a small machine
# Spark ignores a file that is older than the newest one by more than this, 7 days by default, without a word: one file
# dated ahead would hide all others.
_ANY_AGE = "36500d"


def start(spark, landing, root, topics, every_s=10, once=False, files=None, new_checkpoint=False):
    """Starts the query from the landing files in `landing` to the tables in the folder or URI `root`. Returns the
    StreamingQuery. Raises WrongTables.

    Devices publish below `topics`. A micro-batch starts every `every_s` seconds; with `once` the query ends after the
    files that are present. A micro-batch reads at most `files` files, or BATCH bytes. Spark moves files that were read
    to `root`/landed. new_checkpoint: see guard.begin().
    """
    first = begin(spark, landing, root, topics, new_checkpoint)
    limit = ("maxFilesPerTrigger", files) if files else ("maxBytesPerTrigger", BATCH)
    lines = (
        spark.readStream.format("text")
        .option("lineSep", "\n")  # a line may contain other line separators
        .option(*limit)
        .option("maxFileAge", _ANY_AGE)
        .option("cleanSource", "archive")  # otherwise listing the files takes longer and longer
        .option("sourceArchiveDir", f"{root}/{ARCHIVE}")
        .load(f"{landing}/*.ndjson")
        .selectExpr("CAST(value AS BINARY) AS value")  # it may not be UTF-8
    )
    trigger = {"availableNow": True} if once else {"processingTime": f"{every_s} seconds"}
    return (
        lines.writeStream.queryName("inflight")
        .foreachBatch(lambda batch, number: take(batch, first + number, root, topics))
        .option("checkpointLocation", f"{root}/_checkpoint")
        .trigger(**trigger)
        .start()
    )
