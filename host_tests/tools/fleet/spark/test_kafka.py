"""Tables from a Kafka topic. There is no Kafka here: another source has its columns, partitions and offsets."""

import base64
import json

import pytest

from host_tests.tools.fleet.spark.conftest import AT, Fleet
from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.spark.kafka import Kafka, properties

SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"


def source():
    """A data source of Spark's whose folder has a file of JSON lines for each partition. It stands in a function, so
    that it goes to Spark's processes as it is."""
    import base64
    import datetime
    import json
    from pathlib import Path

    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    class Range(InputPartition):
        def __init__(self, name, first, until):
            self.name, self.first, self.until = name, first, until

    class Reader(DataSourceStreamReader):
        def __init__(self, folder):
            self._folder = Path(folder)

        def initialOffset(self):
            return {"telemetry": dict.fromkeys(("0", "1"), 0)}

        def latestOffset(self):
            return {"telemetry": {name: len(self._lines(name)) for name in ("0", "1")}}

        def _lines(self, name):
            path = self._folder / name
            return path.read_text().splitlines() if path.exists() else []

        def partitions(self, start, end):
            return [Range(name, start["telemetry"][name], end["telemetry"][name]) for name in ("0", "1")]

        def read(self, partition):
            lines = self._lines(partition.name)[partition.first : partition.until]
            for offset, line in enumerate(lines, partition.first):
                key, value, at = json.loads(line)
                decoded = [None if one is None else base64.b64decode(one) for one in (key, value)]
                moment = datetime.datetime.fromtimestamp(at / 1000, datetime.timezone.utc)
                yield (*decoded, "telemetry", int(partition.name), offset, moment, 0)

    class Records(DataSource):
        @classmethod
        def name(cls):
            return "records"

        def schema(self):
            return SCHEMA

        def streamReader(self, schema):
            return Reader(self.options["folder"])

    return Records


class Records(Kafka):
    """As Kafka, with the records in `folder`."""

    def __init__(self, folder):
        super().__init__("kafka://127.0.0.1:9092/telemetry")
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def records(self, spark):
        spark.dataSource.register(source())
        return spark.readStream.format("records").option("folder", str(self.folder)).load()

    def add(self, partition, key, value, at=AT):
        coded = [None if one is None else base64.b64encode(one).decode() for one in (key, value)]
        with open(self.folder / str(partition), "a") as file:
            file.write(json.dumps([*coded, at]) + "\n")


class KafkaFleet(Fleet):
    def __init__(self, spark, folder):
        super().__init__(spark, folder)
        self.kafka = Records(folder / "kafka")

    def run(self, new_checkpoint=False, source="kafka"):
        from inflight_tools.fleet.spark.stream import start

        given = self.kafka if source else None
        start(
            self._spark, self.landing, self.root, "inflight", once=True, new_checkpoint=new_checkpoint, source=given
        ).awaitTermination()

    def publish(self, device, seq, value=20.0, partition=None, at=AT):
        body = [{"bn": f"urn:dev:mac:{device}:", "bt": at / 1000, "seq": seq, "epoch": 7, "n": "t", "u": "Cel"}]
        body[0]["v"] = value
        topic = f"inflight/{device}/telemetry".encode()
        self.kafka.add(seq % 2 if partition is None else partition, topic, json.dumps(body).encode(), at)


@pytest.fixture
def fleet(spark, tmp_path):
    return KafkaFleet(spark, tmp_path)


def all_of(fleet, n):
    assert fleet.numbers() == fleet.numbers("measurements", "true") == [("attic", 7, i) for i in range(n)]


def test_records_become_tables_each_once(fleet):
    for seq in range(5):
        fleet.publish("attic", seq, at=AT + seq)
    fleet.run()
    all_of(fleet, 5)
    fleet.publish("attic", 4, partition=1, at=AT + 9)  # a repetition, in another partition
    fleet.publish("attic", 5)
    fleet.run()
    all_of(fleet, 6)
    rows = fleet.tables.raw.read().orderBy("seq", "received").collect()
    assert len(rows) == 7 and [row["seq"] for row in rows if not row["first"]] == [4]
    assert {(row["by"], row["qos"], row["dup"]) for row in rows} == {("kafka", 1, False)}
    assert rows[1]["received"].timestamp() * 1000 == AT + 1 and rows[0]["topic"] == "inflight/attic/telemetry"
    facts = fleet.facts()
    assert facts["fleet"]["delivered"] == 6 and facts["fleet"]["repeated"] == 1 and not facts["differences"]
    assert facts["unread"] == {"files": 0, "bytes": 0, "stale": 0}


def test_what_cannot_be_read_is_a_dead_letter(fleet):
    status = b'{"state": "online", "seq": 0, "epoch": 7, "oldest": 0}'
    fleet.kafka.add(0, b"inflight/attic/status", status)
    for key, value in (
        (b"inflight/attic/telemetry", b"\xff\x00\xfe"),
        (b"inflight/attic/telemetry", None),
        (None, b"[]"),
        (b"\xff", b"[]"),
        ("inflight/t\u00f6ne/telemetry".encode(), '"\u2028\\ \u0000"'.encode()),
    ):
        fleet.kafka.add(0, key, value)
    fleet.run()
    rows = fleet.tables.dead_letters.read().collect()
    assert len(rows) == 5 and fleet.numbers() == [("attic", 7, 0)]
    assert b"\xff\x00\xfe" in [row["payload"] for row in rows]
    assert '"\u2028\\ \u0000"'.encode() in [row["payload"] for row in rows]


@pytest.mark.long("INFLIGHT_PIPELINE")
def test_a_batch_that_was_killed_is_repeated(fleet, monkeypatch):
    from inflight_tools.fleet.spark.tables import Table

    fleet.publish("attic", 0)
    fleet.run()
    for seq in (1, 2):
        fleet.publish("attic", seq)
    write = Table.write
    for name in ("measurements", "ledger"):

        def cut(table, *args, name=name, **how):
            if table.name == name:
                raise RuntimeError("killed")
            return write(table, *args, **how)

        with monkeypatch.context() as changed, pytest.raises(Exception, match="killed"):
            changed.setattr(Table, "write", cut)
            fleet.run()
        fleet.publish("attic", 3 + len(name))  # later, so in the next batch
    for seq in (3, 4, *range(5, 16)):
        fleet.publish("attic", seq)
    fleet.run()
    fleet.run()
    all_of(fleet, 16)
    assert sum(row["count"] for row in fleet.tables.minutes.read().collect()) == 16


@pytest.mark.long("INFLIGHT_PIPELINE")
def test_the_source_of_tables_is_known(fleet, telemetry):
    fleet.publish("attic", 0)
    fleet.run()
    with pytest.raises(
        WrongTables, match="from the records of Kafka's topic telemetry, not from all files in .*landing"
    ):
        fleet.run(source=None)
    fleet.land(telemetry("attic", 0), telemetry("attic", 1))
    fleet.run(new_checkpoint=True, source=None)
    all_of(fleet, 2)
    with pytest.raises(WrongTables, match="are made from landing files, not from the records of Kafka's topic"):
        fleet.run()
    fleet.run(new_checkpoint=True)
    all_of(fleet, 2)


@pytest.mark.long("INFLIGHT_PIPELINE")
def test_a_lost_checkpoint_is_told(fleet):
    import shutil

    fleet.publish("attic", 0)
    fleet.run()
    shutil.rmtree(fleet.root / "_checkpoint")
    with pytest.raises(
        WrongTables, match="continue with --new-checkpoint. That reads the records of Kafka's topic tel"
    ):
        fleet.run()
    fleet.publish("attic", 1)
    fleet.run(new_checkpoint=True)
    all_of(fleet, 2)


def test_without_its_jars_spark_says_what_to_add(spark):
    package = f"--conf spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
    with pytest.raises(RuntimeError, match=package):
        Kafka("kafka://broker.example:9092/telemetry", {"security.protocol": "SSL"}).lines(spark)


def test_a_power_cut_leaves_offsets_of_kafka_alone(tmp_path):
    """As Kafka's source writes them; a torn one goes."""
    from inflight_tools.fleet.spark.repair import Checkpoint

    for folder in ("offsets", "commits", "sources/0"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "metadata").write_text('{"id":"1"}')
    (tmp_path / "sources/0/0").write_text('\0v1\n{"telemetry":{"0":0}}')
    for n in range(3):
        (tmp_path / f"offsets/{n}").write_text('v1\n{"batchWatermarkMs":0}\n{"telemetry":{"0":%d}}' % n)
        (tmp_path / f"commits/{n}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (tmp_path / "offsets/3").write_text("v1\n{")
    checkpoint = Checkpoint(tmp_path)
    checkpoint.drop_torn()
    assert (checkpoint.last("offsets"), checkpoint.last("commits"), checkpoint.last("sources/0")) == (2, 2, 0)
    assert checkpoint.listed_by(2) == -1


def test_properties_of_the_client():
    text = "# TLS\nsecurity.protocol=SSL\n\n ssl.truststore.location = /etc/kafka/trust=1.jks \n"
    assert properties(text) == {"security.protocol": "SSL", "ssl.truststore.location": "/etc/kafka/trust=1.jks"}
    with pytest.raises(ValueError, match="line 2 of the properties is no name=value"):
        properties("a=1\nnonsense")


@pytest.mark.parametrize("uri", ["kafka://host:9092", "kafka://me:secret@host:9092/topic", "host/topic", "kafka:///t"])
def test_a_uri_without_a_topic_or_with_a_password_is_refused(uri):
    with pytest.raises(ValueError, match="write --source kafka://host:9092/topic, and a password into"):
        Kafka(uri)
