"""A fleet whose devices and collectors are of different levels, with mosquitto: the tables contain the truth about each
message. And tables that a version without properties has made."""

import json

import pytest

from host_tests.tools.fleet.collect.collecting import Landing, Program
from inflight import Client, Journal, RamFlash, properties

DEVICES = {"three": 3, "four": 4, "five": 5}
MESSAGES = 12
PROPERTIES = {
    "expiry": 86_400,
    "content_type": "application/senml+json",
    "user": (("firmware", "1.2"), ("note", "\ufeffü"), ("firmware", "1.3")),
}


class Device:
    """Publishes packs below the topic of its name, as the firmware does; each second one has properties."""

    def __init__(self, name, port):
        self.name, self._port, self._flash = name, port, RamFlash(16)
        self.start()

    def start(self):
        """Also after a power cut: only what is in flash is left."""
        self._journal, level = Journal(self._flash), DEVICES[self.name]
        self._client = Client("127.0.0.1", self.name, self._journal, port=self._port, protocol_level=level)

    def publish(self, qos, meta):
        seq, epoch = self._journal.next_seq, self._journal.epoch
        body = [{"bn": f"urn:dev:mac:{self.name}:", "bt": 0, "seq": seq, "epoch": epoch, "n": "t", "v": seq}]
        body = json.dumps(body, separators=(",", ":"))
        self._client.publish(f"inflight/{self.name}/telemetry", body, qos, properties=meta if seq % 2 else None)

    def deliver(self):
        self._client.connect()
        assert self._client.drain(30_000)


def rows(fleet, table):
    """Without Spark: that is quicker."""
    from deltalake import DeltaTable

    return DeltaTable(fleet.root / table).to_pyarrow_table().to_pylist()


@pytest.fixture
def collect(fleet):
    """collect(name, level) starts a collector as a process."""
    programs = []

    def start(broker, name, level):
        options = "--broker", f"127.0.0.1:{broker.port}", "--name", name, "--protocol-level", level
        programs.append(Program("--landing", fleet.landing, "--age", 0.2, "--report", 0.2, *options))
        return programs[-1].connected()

    yield start
    for program in programs:
        program.kill()


def test_devices_and_collectors_of_all_levels(fleet, mosquitto, collect):
    """One collector is killed on the way, and one device loses its power with messages in its journal."""
    broker = mosquitto()
    devices = [Device(name, broker.port) for name in DEVICES]
    metas = [properties(**PROPERTIES), properties(expiry=3600)]
    collectors = [collect(broker, f"c{level}", level) for level in (4, 5)]
    for n in range(MESSAGES):
        for device in devices:
            device.publish(1 + n % 2, metas[n // 2 % 2])
            if n == 3:
                device.deliver()
        if n == 5:
            collectors[1].kill()
            devices[2].start()
    for device in devices:
        device.deliver()
    collectors[1] = collect(broker, "c5", 5)
    landing = Landing(fleet.landing)
    landing.until(2 * MESSAGES * len(devices))
    assert [program.end() for program in collectors] == [0, 0]
    fleet.run()

    raw = rows(fleet, "raw")
    sent = {(name, seq) for name in DEVICES for seq in range(MESSAGES)}
    for by in ("c4", "c5"):
        assert {(row["device"], row["seq"]) for row in raw if row["by"] == by} == sent
    assert sorted((row["device"], row["seq"]) for row in raw if row["first"]) == sorted(sent)
    user = [{"name": name, "value": value} for name, value in PROPERTIES["user"]]
    for row in raw:
        found = [row[name] for name in ("content_type", "user_properties")]
        if (row["by"], row["device"]) != ("c5", "five") or row["seq"] % 2 == 0:
            assert (row["expiry"], found) == (None, [None, None])
        elif row["seq"] // 2 % 2 == 0:
            assert 86_000 < row["expiry"] <= 86_400 and found == ["application/senml+json", user]
        else:
            assert 3000 < row["expiry"] <= 3600 and found == [None, None]
    facts = fleet.facts()
    counts = {name: facts["fleet"][name] for name in ("devices", "accepted", "delivered", "lost", "doubled")}
    assert counts == {"devices": 3, "accepted": len(sent), "delivered": len(sent), "lost": 0, "doubled": 0}
    assert sorted((row["device"], row["value"]) for row in rows(fleet, "measurements")) == sorted(sent)
    assert rows(fleet, "dead_letters") == []


EXPIRIES = {0: None, 1: 5, 2: 60, 6: None, 7: None}  # by number


@pytest.mark.long("INFLIGHT_TOOLS")
def test_tables_of_a_version_without_properties_go_on(fleet, telemetry, message, monkeypatch):
    """Columns are added; rows of before have none. Hostile properties stop nothing."""
    from deltalake import DeltaTable

    from inflight_tools.fleet.columns import FACTS

    fleet.land(telemetry("attic", 0))
    with monkeypatch.context() as before:
        for name in ("raw", "dead_letters"):
            before.setitem(FACTS, name, FACTS[name].partition(", payload_format")[0])
        fleet.run()
        assert "expiry" not in DeltaTable(fleet.root / "raw").schema().to_json()
    given = {"expiry": 60, "content_type": "a", "correlation": "/wA=", "user_properties": [["b", "1"], ["b", "2"]]}
    fleet.land(
        *(telemetry("attic", 1, properties={"expiry": 5}), telemetry("attic", 2, properties=given)),
        telemetry("attic", 3, properties={"expiry": "soon"}),
        telemetry("attic", 4, properties={"content_type": "x" * 100_000}),
        telemetry("attic", 5, properties={"correlation": "\u00fc"}),
        telemetry("attic", 6, properties={"undecodable": "fw=="}),
        message("attic/telemetry", "no JSON", properties={"content_type": "text/plain"}),
        telemetry("attic", 7),
    )
    fleet.run()
    found = {row["seq"]: row for row in rows(fleet, "raw") if row["seq"] is not None}
    assert {seq: row["expiry"] for seq, row in found.items()} == EXPIRIES
    assert (found[2]["content_type"], found[2]["correlation"]) == ("a", b"\xff\0")
    assert found[2]["user_properties"] == [{"name": "b", "value": "1"}, {"name": "b", "value": "2"}]
    letters = {row["reason"]: row["content_type"] for row in rows(fleet, "dead_letters")}
    assert len(letters) == 5 and letters["Expecting value: line 1 column 1 (char 0)"] == "text/plain"
    assert {f"landing: {name} is not what a collector writes" for name in ("expiry", "content_type", "correlation")} | {
        "properties that are not of MQTT 5"
    } <= letters.keys()
    fleet.tables.merge()
    assert fleet.files("raw") == 1
    assert {row["seq"]: row["expiry"] for row in rows(fleet, "raw") if row["seq"] is not None} == EXPIRIES
    assert fleet.facts()["fleet"]["delivered"] == 5
