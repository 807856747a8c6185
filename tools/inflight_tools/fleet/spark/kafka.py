"""Messages of a Kafka topic in place of landing files. Its records are as a broker's bridge, or a connector for MQTT,
writes them: the key is the topic of MQTT, the value is the payload, the timestamp is when it was received.

**Not tried with Kafka**: tests give records() another source, which has Kafka's columns and offsets."""

import re

_URI = re.compile(r"kafka://([^/@\s]+)/([A-Za-z0-9._-]{1,249})")
_PROPERTY = re.compile(r"\s*([^=\s]+)\s*=\s*(.*?)\s*")
_PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_{}:{}"
_MOST = 500_000  # records of a micro-batch: more may not fit into Spark's memory on a small machine
BY = "kafka"  # in place of a collector
# Whether the value is UTF-8 decides what the line of a landing file calls it, see docs/pipeline.md. Kafka tells neither
# QoS nor DUP.
_TEXT = "CAST(coalesce(value, X'') AS STRING)"
_LINE = f"""to_json(named_struct('at', unix_millis(timestamp), 'by', '{BY}', 'topic', CAST(key AS STRING), 'qos', 1,
    'dup', false, 'retain', false, 'text', CASE WHEN is_valid_utf8({_TEXT}) THEN {_TEXT} END,
    'base64', CASE WHEN NOT is_valid_utf8({_TEXT}) THEN base64(value) END))"""


def properties(text):
    """{name: value} of a file with the properties of a Kafka client, as Kafka's own commands take it."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            one = _PROPERTY.fullmatch(line)
            if not one:
                raise ValueError(f"line {number} of the properties is no name=value")
            found[one[1]] = one[2]
    return found


class Kafka:
    """The topic that `uri` names. settings: properties of the client, for TLS and passwords for one. Raises
    ValueError."""

    def __init__(self, uri, settings=None):
        found = _URI.fullmatch(uri)
        if not found:
            raise ValueError("write --source kafka://host:9092/topic, and a password into the file of --kafka-config")
        self._servers, self._topic = found.groups()
        self._settings = settings or {}

    def __str__(self):
        return f"the records of Kafka's topic {self._topic}"

    def unread(self):
        """As landing.Landing has it: there are no files that could wait."""
        return {}

    def records(self, spark):
        """A streaming DataFrame with the columns of Spark's source for Kafka. Raises RuntimeError if Spark lacks that
        source."""
        from pyspark.errors import AnalysisException

        own = {"kafka.bootstrap.servers": self._servers, "subscribe": self._topic, "startingOffsets": "earliest"}
        given = {f"kafka.{name}": value for name, value in self._settings.items()}
        try:
            return spark.readStream.format("kafka").options(**given, **own, maxOffsetsPerTrigger=_MOST).load()
        except AnalysisException as e:
            if "Failed to find" not in str(e):
                raise
            scala = spark.sparkContext._jvm.scala.util.Properties.versionNumberString().rpartition(".")[0]
            package = _PACKAGE.format(scala, spark.version)
            raise RuntimeError(f"Spark lacks its source for Kafka: add --conf spark.jars.packages={package}") from None

    def lines(self, spark):
        """A streaming DataFrame with lines as the collector writes them."""
        return self.records(spark).selectExpr(f"CAST({_LINE} AS BINARY) AS value")
