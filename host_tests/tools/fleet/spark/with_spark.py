"""A fleet whose batches Spark writes."""

import shutil

from deltalake import DeltaTable

from host_tests.tools.fleet import without_spark
from inflight_tools.fleet.spark.batch import Tables
from inflight_tools.fleet.spark.stream import start


class Fleet(without_spark.Fleet):
    """A fleet in `folder`. The test writes its landing files. as_uri: the pipeline gets a URI of the tables, as in
    object storage, where Hadoop and delta-rs write all files."""

    def __init__(self, spark, folder, as_uri=False):
        super().__init__(folder)
        self._spark = spark
        self.landing.mkdir(parents=True, exist_ok=True)
        self._place = self.root.as_uri() if as_uri else self.root
        self.tables = Tables(spark, self._place)
        self.written = 0

    def land(self, *lines):
        """Writes one landing file."""
        self.written += 1
        hidden = self.landing / f".{self.written:06}"
        hidden.write_bytes(b"".join(line.encode() if isinstance(line, str) else line for line in lines))
        hidden.rename(self.landing / f"{self.written:06}.ndjson")

    def run(self, files=500, new_checkpoint=False):
        """Runs the query once, on the landing files that are present."""
        query = start(
            self._spark, self.landing, self._place, "inflight", once=True, files=files, new_checkpoint=new_checkpoint
        )
        query.awaitTermination()

    def begin_as(self, other):
        """Copies the tables of another fleet. No name of a landing file is used twice."""
        shutil.copytree(other.root, self.root)
        self.written = other.written
        return self

    def files(self, table):
        """The number of a table's files."""
        return len(DeltaTable(self.root / table).file_uris())
