"""Landing files that no batch has read."""

from .guard import last_commit


def unread(spark, landing, root):
    """Counts the landing files in the folder or URI `landing` that are in no finished batch of the tables in `root`:
    {"files", "bytes", "oldest"}, where `oldest` is the time of the oldest one in s since 1970, or None."""
    jvm = spark.sparkContext._jvm
    pattern = jvm.org.apache.hadoop.fs.Path(f"{landing}/*.ndjson")
    files = pattern.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    present = {one.getPath().getName(): one for one in files.globStatus(pattern) or ()}
    for name in _read(spark, root, files, list(present)):
        present.pop(name, None)
    found = list(present.values())
    oldest = min((one.getModificationTime() / 1000 for one in found), default=None)
    return {"files": len(found), "bytes": sum(one.getLen() for one in found), "oldest": oldest}


def _read(spark, root, files, names):
    """Those of the files `names` that are in finished batches. Spark moves a file away some time after that."""
    folder = f"{root}/_checkpoint/sources/0"
    if not names or not files.exists(spark.sparkContext._jvm.org.apache.hadoop.fs.Path(folder)):
        return []
    log = spark.read.schema("path string, batchId bigint").json(folder)  # its first line, a version, has no path
    log = log.where(f"batchId <= {last_commit(spark, root)}").selectExpr("element_at(split(path, '/'), -1) AS name")
    return [row["name"] for row in log.where(log.name.isin(names)).collect()]
