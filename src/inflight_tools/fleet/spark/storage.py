"""Files beside the tables, as Spark's Hadoop sees them: on this machine or at a URI."""


class Storage:
    """The files in the folder or URI `root`. Names are relative to it."""

    def __init__(self, spark, root):
        self._spark, self._root = spark, str(root).rstrip("/")
        self._path = spark.sparkContext._jvm.org.apache.hadoop.fs.Path
        self._files = self._path(self._root).getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())

    def path(self, name):
        return f"{self._root}/{name}"

    def exists(self, name):
        return self._files.exists(self._path(self.path(name)))

    def text(self, name):
        """The text of a file, "" if it is empty. It must exist."""
        row = self._spark.read.text(self.path(name), wholetext=True).first()
        return row[0] if row else ""

    def glob(self, pattern):
        """{name: (bytes, time of its last change in s since 1970)}"""
        found = self._files.globStatus(self._path(self.path(pattern))) or ()
        return {one.getPath().getName(): (one.getLen(), one.getModificationTime() / 1000) for one in found}

    def last_number(self, folder):
        """The highest number that is the name of a file in `folder`, -1 if there is none."""
        return max((int(name) for name in self.glob(f"{folder}/*") if name.isdigit()), default=-1)
