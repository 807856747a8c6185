"""The streaming query: landing files in, tables out."""

import time

from .batch import take
from .guard import begin
from .repair import CHECKPOINT, Checkpoint
from .storage import ARCHIVE, Storage

BATCH = 256 << 20  # most bytes of landing files: more may not fit into Spark's memory on a small machine
# Spark ignores a file that is older than the newest one by more than this, 7 days by default, without a word: one file
# dated ahead would hide all others.
_ANY_AGE = "36500d"
_CLOCK_NS = 2 * 10**9  # by which times of files may be behind the clock


def start(spark, landing, root, topics, every_s=10, once=False, files=None, new_checkpoint=False):
    """Starts the query from the landing files in `landing` to the tables in the folder or URI `root`. Returns the
    StreamingQuery. Raises WrongTables.

    Devices publish below `topics`. A micro-batch starts every `every_s` seconds; with `once` the query ends after the
    files that are present. A micro-batch reads at most `files` files, or BATCH bytes. Spark moves files that were read
    to `root`/landed. new_checkpoint: see guard.begin()."""
    first = begin(spark, landing, root, topics, new_checkpoint)
    trigger = {"availableNow": True} if once else {"processingTime": f"{every_s} seconds"}
    return (
        _landed(spark, landing, root, files)
        .writeStream.queryName("inflight")
        .foreachBatch(_Batches(Storage(spark, root), first, root, topics, Storage(spark, landing)))
        .option("checkpointLocation", f"{root}/{CHECKPOINT}")
        .trigger(**trigger)
        .start()
    )


def _landed(spark, landing, root, files):
    """The lines of landing files."""
    limit = ("maxFilesPerTrigger", files) if files else ("maxBytesPerTrigger", BATCH)
    return (
        spark.readStream.format("text")
        .option("lineSep", "\n")  # a line may contain other line separators
        .option(*limit)
        .option("maxFileAge", _ANY_AGE)
        .option("fileNameOnly", "true")  # no name is used twice, and the folder may be moved
        .option("cleanSource", "archive")  # otherwise listing the files takes longer and longer
        .option("sourceArchiveDir", f"{root}/{ARCHIVE}")
        .load(f"{landing}/*.ndjson")
        .selectExpr("CAST(value AS BINARY) AS value")  # it may not be UTF-8
    )


class _Batches:
    """The batches of a query: batch 0 of its checkpoint is number `first` of the tables in the Storage `files`. In a
    folder of this machine the list of a batch's landing files is durable before the batch writes anything. landing: the
    Storage of the landing files."""

    def __init__(self, files, first, root, topics, landing):
        self._files, self._first, self._root, self._topics, self._landing = files, first, root, topics, landing
        self._synced_ns = 0

    def __call__(self, lines, number):
        landed = None
        if self._files.is_local:
            now = time.time_ns() - _CLOCK_NS
            self._files.sync(CHECKPOINT, since_ns=self._synced_ns)
            self._synced_ns = now
            landed = self._list(number)
        take(lines, self._first + number, self._root, self._topics, landed)

    def _list(self, number):
        """The names of a batch's landing files. Meanwhile Spark writes no list."""
        checkpoint = Checkpoint(self._files.path(CHECKPOINT))
        names = list(filter(self._landing.exists, checkpoint.files_of(number)))  # some may have been set aside
        if shorter := checkpoint.shorter_list(lambda: self._landing.glob("*.ndjson").keys()):
            name, text = shorter
            self._files.write(f"{CHECKPOINT}/{name}", text)
        return names
