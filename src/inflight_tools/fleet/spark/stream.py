"""The streaming query: landing files in, tables out."""

import json

from .batch import take

FORMAT = 2  # of tables and checkpoint; increased when this version cannot continue older ones
BATCH = 256 << 20  # most bytes of landing files: more may not fit into Spark's memory on a small machine
# Spark ignores a file that is older than the newest one by more than this, 7 days by default, without a word: one file
# dated ahead would hide all others.
_ANY_AGE = "36500d"


class WrongTables(RuntimeError):
    """The tables belong to another fleet or version. The text says what to do."""


def _check(spark, root, topics):
    """Writes pipeline.json beside new tables; compares it with these arguments otherwise."""
    jvm = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{root}/pipeline.json")
    files = path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    ours = {"format": FORMAT, "topics": topics, "spark": spark.version}
    if not files.exists(path):
        out = files.create(path)
        out.write(json.dumps(ours).encode())
        out.close()
        return
    noted = json.loads(spark.read.text(path.toString(), wholetext=True).first()[0])
    for name, value in ours.items():
        if noted.get(name) != value:
            raise WrongTables(
                f"the tables in {root} are of {name} {noted.get(name)}, this is {value}: use that one, or give an "
                "empty folder and move the landing files in landed/ back"
            )


def start(spark, landing, root, topics, every_s=10, once=False, files=None):
    """Starts the query from the landing files in `landing` to the tables in the folder or URI `root`. Returns the
    StreamingQuery. Raises WrongTables.

    Devices publish below `topics`. A micro-batch starts every `every_s` seconds; with `once` the query ends after the
    files that are present. A micro-batch reads at most `files` files, or BATCH bytes. Spark moves files that were read
    to `root`/landed.
    """
    _check(spark, root, topics)
    limit = ("maxFilesPerTrigger", files) if files else ("maxBytesPerTrigger", BATCH)
    lines = (
        spark.readStream.format("text")
        .option("lineSep", "\n")  # a line may contain other line separators
        .option(*limit)
        .option("maxFileAge", _ANY_AGE)
        .option("cleanSource", "archive")  # otherwise listing the files takes longer and longer
        .option("sourceArchiveDir", f"{root}/landed")
        .load(f"{landing}/*.ndjson")
        .selectExpr("CAST(value AS BINARY) AS value")  # it may not be UTF-8
    )
    trigger = {"availableNow": True} if once else {"processingTime": f"{every_s} seconds"}
    return (
        lines.writeStream.queryName("inflight")
        .foreachBatch(lambda batch, number: take(batch, number, root, topics))
        .option("checkpointLocation", f"{root}/_checkpoint")
        .trigger(**trigger)
        .start()
    )
