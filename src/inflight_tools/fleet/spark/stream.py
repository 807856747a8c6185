"""The streaming query: landing files in, tables out."""

import json

from .batch import take

FORMAT = 1  # of tables and checkpoint; rises when older ones can no longer be gone on with
BATCH = 256 << 20  # bytes of landing files, at most: more may not fit the memory that Spark has on a small machine


class WrongTables(RuntimeError):
    """The tables belong to another fleet, or were written by another version; the text says what to do."""


def _check(spark, root, topics):
    """Notes beside the tables what they are, or compares with what is noted."""
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
                f"the tables in {root} are of {name} {noted.get(name)}, this is {value}: go on with that, or give an "
                "empty folder and put the landing files (those in its landed/ too) where they were"
            )


def start(spark, landing, root, topics, every_s=10, once=False, files=None):
    """Starts the query: landing files of folder `landing` into the tables below the folder or URI `root`; devices
    publish below `topics`. Every so many seconds, or `once`: what is there, and then an end. A micro-batch takes
    `files` at most, else BATCH. Files that were read go to `root`/landed. Returns the StreamingQuery. Raises
    WrongTables."""
    _check(spark, root, topics)
    limit = ("maxFilesPerTrigger", files) if files else ("maxBytesPerTrigger", BATCH)
    lines = (
        spark.readStream.format("text")
        .option("lineSep", "\n")  # other ends of line may stand within one
        .option(*limit)
        .option("cleanSource", "archive")  # or listing what was read takes ever longer
        .option("sourceArchiveDir", f"{root}/landed")
        .load(f"{landing}/*.ndjson")
        .selectExpr("CAST(value AS BINARY) AS value")  # it may be no text
    )
    trigger = {"availableNow": True} if once else {"processingTime": f"{every_s} seconds"}
    return (
        lines.writeStream.queryName("inflight")
        .foreachBatch(lambda batch, number: take(batch, number, root, topics))
        .option("checkpointLocation", f"{root}/_checkpoint")
        .trigger(**trigger)
        .start()
    )
