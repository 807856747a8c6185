"""Whether a query may continue the tables that it finds: they must be of its fleet and format, and their checkpoint
must know all their batches. Else batch numbers begin again, and new rows hide under old folders or replace them."""

import json

from .batch import Tables

FORMAT = 2  # of the tables; increased when this version cannot continue older ones


class WrongTables(RuntimeError):
    """The tables cannot be continued. The text says what to do."""


class _Files:
    """The files in the folder or URI `root`, as Spark's Hadoop sees them."""

    def __init__(self, spark, root):
        self._spark, self._root = spark, str(root).rstrip("/")
        self._path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
        self._files = self._path(self._root).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def at(self, name):
        return self._path(f"{self._root}/{name}")

    def text(self, name):
        """The text of a file; "" if it is empty or missing."""
        if not self._files.exists(self.at(name)):
            return ""
        row = self._spark.read.text(self.at(name).toString(), wholetext=True).first()
        return row[0] if row else ""

    def write(self, name, text):
        """Writes a file that is whole or missing, whenever this is killed."""
        new = self.at(name + ".new")
        out = self._files.create(new, True)
        out.write(text.encode())
        out.close()
        self._files.delete(self.at(name), False)
        self._files.rename(new, self.at(name))

    def delete(self, name):
        self._files.delete(self.at(name), True)

    def last_number(self, folder):
        """The highest number that is the name of a file in `folder`, -1 if there is none."""
        if not self._files.exists(self.at(folder)):
            return -1
        names = (status.getPath().getName() for status in self._files.listStatus(self.at(folder)))
        return max((int(name) for name in names if name.isdigit()), default=-1)


def last_commit(spark, root):
    """The number of the last batch that the checkpoint of the tables in `root` knows as finished; -1: none."""
    return _Files(spark, root).last_number("_checkpoint/commits")


def begun_with(spark, root):
    """The version of Spark that began the checkpoint of the tables in `root`; None if there is none."""
    return _noted(_Files(spark, root), root).get("spark")


def _noted(files, root):
    text = files.text("pipeline.json")
    try:
        noted = json.loads(text or "{}")  # empty: a driver was killed before it had written it
    except ValueError:
        noted = None
    if not isinstance(noted, dict):
        raise WrongTables(f"{root}/pipeline.json is damaged: restore it, or delete it if the tables are of this fleet")
    return noted


def begin(spark, root, topics, new_checkpoint=False):
    """Compares the tables in `root` with the devices' `topics` and this version. Returns the number of the batch that
    is the checkpoint's batch 0. Raises WrongTables. new_checkpoint: give up the old one."""
    files, tables = _Files(spark, root), Tables(spark, root)
    noted = _noted(files, root)
    ours = {"format": FORMAT, "topics": topics}
    for name, value in ours.items():
        if noted.get(name, value) != value:
            raise WrongTables(
                f"the tables in {root} are of {name} {noted[name]}, this is {value}: use that one, or give an "
                "empty folder, and the landing files in landed/ as --landing if they are all there"
            )
    first, last = noted.get("first", 0), tables.last_batch()
    known = files.last_number("_checkpoint/offsets")
    if new_checkpoint:
        files.delete("_checkpoint")
        tables.drop_unfinished()
        first = tables.last_batch() + 1
    elif last > first + known:
        what = f"ends with batch {first + known}" if known >= 0 else "is missing"
        raise WrongTables(
            f"the tables in {root} have batches up to {last}, but their checkpoint {what}: restore {root}/_checkpoint, "
            "or continue with --new-checkpoint, which reads once more what is in the landing folder, as repetitions"
        )
    found = ours | {"spark": spark.version if new_checkpoint else noted.get("spark", spark.version), "first": first}
    if found != noted:
        files.write("pipeline.json", json.dumps(found))
    return first
