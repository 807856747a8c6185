"""The collector as a process with a real broker: every message is in a landing file, whatever fails."""

import json
import re
import resource
import urllib.request

import pytest

from host_tests.tools.fleet.collect.collecting import Landing, at, load, publish, until
from tools.reference.kinds import PUBACK
from tools.reference.properties import variable
from tools.reference.wire import publish as delivery
from tools.reference.wire import string

# --- messages ---


def test_all_kinds_of_topics(broker, collect, landing):
    collect(*at(broker), "--root", "house/up").connected()
    kinds = ("telemetry", "status", "health", "release", "reply/ping", "reply/a/b")
    for topic in (*(f"house/up/attic/{kind}" for kind in kinds), "house/up/attic/command/ping", "inflight/x/telemetry"):
        publish(broker, b"1", topic=topic)
    assert [line["topic"] for line in landing.until(6)] == [f"house/up/attic/{kind}" for kind in kinds]
    line = landing.lines[0]
    told = {"by": "collector-0", "topic": "house/up/attic/telemetry", "qos": 1, "dup": False, "retain": False}
    assert line == {"at": line["at"]} | told | {"text": "1"}
    assert abs(line["at"] / 1000 - (landing.folder / ".collector-0.lock").stat().st_mtime) < 60


def test_a_million_bytes(broker, collect, landing):
    """Kept whole. A payload above the limit is cut and marked. The next message follows."""
    program = collect(*at(broker)).connected()
    publish(broker, b"[" * 1_000_000, b"]" * 20_000_000, b"1")
    first, second, third = landing.until(3)
    assert first["text"] == "[" * 1_000_000 and "truncated" not in first
    assert second["text"] == "]" * (1 << 20)
    assert (second["truncated"], second["length"]) == (True, 20_000_000)
    assert third["text"] == "1"
    assert program.end() == 0
    assert landing.figures()["truncated"] == 1


MIB = 1 << 20


@pytest.mark.parametrize("length", [64 * MIB, 250_000_000], ids=["whole", "unfinished"])
def test_a_payload_that_is_longer_than_memory_is_wanted_is_not_kept(scripted, collect, landing, length):
    """The broker sends 64 MiB of it: they are read, and all but the beginning is dropped. If its end never comes, it is
    sent again on the next connection, as QoS 1 asks. The messages of other devices go on."""

    def script(broker):
        broker.welcome()
        broker.grant()
        broker.send(delivery("inflight/a/status", b"1", 1, 6))
        broker.expect(PUBACK, mid=6)
        memory.append(program.most_memory())
        head = string("inflight/evil/status") + b"\0\x07"
        broker.send(b"\x32" + variable(len(head) + length) + head)
        for _ in range(64):
            broker.connection.sock.sendall(b"x" * MIB)
        if length > 64 * MIB:
            broker.cut()
            broker.welcome(1)
        else:
            broker.expect(PUBACK, mid=7)
        broker.send(delivery("inflight/b/status", b"2", 1, 8))
        broker.expect(PUBACK, mid=8)
        memory.append(program.most_memory())
        broker.goodbye()
        broker.cut()

    memory = []
    program = collect(*at(scripted), "--max-payload", 4096)
    with scripted.play(script):
        landing.until(2 if length > 64 * MIB else 3)
        assert program.end() == 0
    lines = landing.lines
    assert [lines[0]["text"], lines[-1]["text"]] == ["1", "2"]
    if length == 64 * MIB:
        assert (lines[1]["text"], lines[1]["truncated"], lines[1]["length"]) == ("x" * 4096, True, length)
    assert memory[1] - memory[0] < 8 * MIB


# --- markers ---


def test_a_marker_lands_behind_what_the_session_had(broker, collect, landing):
    """Also behind what waited for a collector that was away."""
    collect(*at(broker)).connected().kill()
    publish(broker, b"1", b"2")
    collect(*at(broker), "--marker", 0.1).connected()
    first, second, marker = landing.until(3)[:3]
    assert (first["text"], second["text"], marker["topic"]) == ("1", "2", "inflight/collector-0/collector")
    assert first["at"] <= marker["at"] and json.loads(marker["text"])["sent"] <= marker["at"]


def test_another_collector_with_the_name_is_found_out_by_its_markers(broker, collect, landing, tmp_path):
    """It takes the session over, and is gone again before the first one is back."""

    def runs(landing):
        """Whose markers have landed, each with whether it is the retained one."""
        return [(json.loads(line["text"])["run"], line["retain"]) for line in landing.read()]

    first = collect(*at(broker), "--marker", 0.1).connected()
    landing.until(1)
    ((own, _),) = set(runs(landing))
    first.stop()
    other = collect(*at(broker), "--marker", 0.1, "--landing", tmp_path / "other").connected()
    there = Landing(tmp_path / "other")
    until(lambda: {run for run, _ in runs(there)} - {own}, "a marker of the other one")
    (foreign,) = {run for run, _ in runs(there)} - {own}
    other.kill()
    first.go_on()
    until(lambda: (foreign, True) in runs(landing), lambda: f"the retained marker of {foreign} in {runs(landing)}")
    until(lambda: (own, False) in runs(landing)[runs(landing).index((foreign, True)) :], "a marker behind it")


def test_a_broker_that_refuses_markers_costs_no_message(serve, collect, landing, tmp_path):
    file = tmp_path / "access"
    file.write_text("topic readwrite inflight/attic/#\ntopic read inflight/+/telemetry\n")
    broker = serve(f"acl_file {file}")
    program = collect(*at(broker), "--marker", 0.1).connected()
    publish(broker, b"1")
    assert landing.one()["text"] == "1"
    program.counted(1)
    assert landing.texts() == ["1"]


# --- counters ---


def test_figures_and_metrics(broker, collect, landing):
    pytest.importorskip("prometheus_client", reason="prometheus-client is not installed: run `make setup-pipeline`")
    publish(broker, b"online", topic="inflight/attic/status", retain=True)
    program = collect(*at(broker), "--metrics", 0).connected()
    assert landing.one()["retain"] is True  # it was published before the subscription
    publish(broker, *[b"21.5"] * 99)
    landing.until(100)
    (url,) = re.findall(r"metrics at (http://127\.0\.0\.1:\d+/metrics)", program.output())
    with urllib.request.urlopen(url, timeout=240) as answer:
        text = answer.read().decode()
    assert 'inflight_collector_acknowledged_messages_total{collector="collector-0"} 100.0' in text
    assert 'inflight_collector_connected{collector="collector-0"} 1.0' in text
    program.until(r"100 messages, .* [1-9] files, 0 reconnects, 0 errors")
    assert program.end() == 0
    figures = landing.figures()
    assert (figures["messages"], figures["bytes"], figures["dup"], figures["errors"]) == (100, 402, 0, 0)
    assert figures["files"] == len(landing.files)
    assert figures["batch"] == round(100 / figures["batches"], 1)
    assert figures["connected"] is False


# --- failures of the disk ---


def limit_files(program, size=resource.RLIM_INFINITY):
    """Files of the process cannot grow beyond this size."""
    resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_full_disk(broker, collect, landing):
    """The collector reports it once, acknowledges nothing, and continues when the disk has space, without partial
    lines."""
    program = collect(*at(broker), "--age", 1000).connected()
    publish(broker, b"1")
    program.counted(1)
    before = program.memory()
    limit_files(program, 60)  # half a line
    publish(broker, *(b"%d" % n for n in range(2, 50)), *[b"x" * 1_000_000] * 60)
    program.until("cannot write to the landing folder")
    program.until(r" [2-9] errors")  # it has retried
    landing.until(1)
    assert landing.texts() == ["1"]
    assert program.memory() < before + (40 << 20)
    limit_files(program)
    program.until("the landing folder can be written again")
    program.counted(49 + 60)
    assert program.end() == 0
    assert landing.texts()[:49] == [str(n) for n in range(1, 50)]
    assert len(landing.texts()) == 49 + 60
    assert not any(line["dup"] for line in landing.lines)
    assert program.output().count("cannot write to the landing folder") == 1
    landing.unchanged()


def test_log_on_the_full_disk(broker, collect, landing, tmp_path):
    """The collector cannot write its log either, and continues."""
    with open(tmp_path / "log", "wb") as log:
        program = collect(*at(broker), log=log)
        until(lambda: b"connected" in (tmp_path / "log").read_bytes(), "connected")
        limit_files(program, 60)
        publish(broker, b"1", b"2")
        until(lambda: landing.hidden(".spool"), "the attempt to write")
        limit_files(program)
        assert [line["dup"] for line in landing.until(2)] == [False, False]
        assert program.end() == 0


def test_stopped_while_the_disk_is_full(broker, collect, landing):
    """Nothing was acknowledged, so the next collector gets the messages."""
    program = collect(*at(broker)).connected()
    limit_files(program, 60)
    publish(broker, b"1", b"2")
    program.until("cannot write to the landing folder")
    assert program.end() == 1
    assert "the broker will send them again" in program.output()
    assert landing.read() == []
    program = collect(*at(broker)).connected()
    landing.until_all(["1", "2"])
    assert landing.lines[0]["dup"] is True
    assert program.end() == 0
    assert landing.figures()["dup"] >= 1


# --- failures of the broker ---


def test_broker_restarts(broker, collect, landing):
    """Under load. The collector reports the loss of the connection and the new connection."""
    program = collect(*at(broker)).connected()
    with load(broker) as numbers:
        landing.until(300)
        broker.stop()
        program.until("no connection to the broker at 127.0.0.1")
        broker.start()
        program.until("connected to the broker", times=2)
        landing.until(len(landing.lines) + 300)
    landing.until_all(numbers)
    assert program.end() == 0
    assert landing.figures()["reconnects"] == 1
    landing.unchanged()


def test_websocket(serve, collect, landing):
    """Messages of all lengths through the broker's listener for WebSocket."""
    broker = serve("protocol websockets")
    program = collect(*at(broker), "--websocket", "/mqtt").connected()
    payloads = [b"x" * n for n in (1, 100, 1000, 100_000)] + [b"%d" % n for n in range(500)]
    publish(broker, *payloads, transport="websockets")
    landing.until(len(payloads))
    assert landing.texts() == [payload.decode() for payload in payloads]
    assert program.end() == 0


# --- groups ---


def test_shared_load(broker, collect, landing):
    """Two collectors share the messages. One is killed and restarted: no message of its share is lost."""

    def member(name):
        return collect(*at(broker), "--name", name, "--share", "all").connected()

    def shares():
        landing.read()
        return [sum(line["by"] == name for line in landing.lines) for name in ("a", "b")]

    def more(who):
        before = shares()[who]
        until(lambda: shares()[who] > before + 300, shares)

    members = [member("a"), member("b")]
    with load(broker) as numbers:
        until(lambda: min(shares()) > 100, shares)
        members[0].kill()
        more(1)
        members[0] = member("a")
        more(0)
    landing.until_all(numbers)
    assert [program.end() for program in members] == [0, 0]
    landing.read()
    a, b = ({line["text"] for line in landing.lines if line["by"] == name} for name in ("a", "b"))
    assert not a & b
    landing.unchanged()
