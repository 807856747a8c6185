"""The commands `inflight fleet ...`. Each starts a Spark of its own, so these tests take minutes."""

import json
import signal
import subprocess
import time

import paho.mqtt.publish
import pytest
from deltalake import DeltaTable

from host_tests.processes import INFLIGHT
from host_tests.tools.fleet.without_spark import delivery, exported, telemetry

ALONE = ("--master", "local[2]")
PATIENCE_S = 240

pytestmark = [pytest.mark.long("INFLIGHT_PIPELINE"), pytest.mark.timeout(900)]


def _run(*words):
    command = [*INFLIGHT, "fleet", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def run(*words):
    done = _run(*words)
    return done.returncode, done.stdout + done.stderr


def run_json(*words):
    """Runs the command with --json, and returns the values of its lines."""
    done = _run(*words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_tables_compact_report_and_export(fleet, tmp_path):
    now = int(time.time() * 1000)
    for n in range(3):
        fleet.land(telemetry("attic", n, n))
    of = ("--data", tmp_path, *ALONE)
    batches = run_json("tables", *of, "--once", "--files", "1")
    assert [(batch["batch"], batch["deliveries"]) for batch in batches] == [(0, 1), (1, 1), (2, 1)]
    assert all(batch["seconds"] > 0 for batch in batches)
    assert "replaced 9 files by larger ones" in run("compact", *of)[1]
    assert "a number of days, as in 90d" in run("compact", *of, "--keep", "90")[1]
    assert run_json("export", tmp_path / "rows", *of[:2], "--follow", "--once") == [{"measurements": 3}]
    status, output = run("compact", *of, "--keep-measurements", "30d")  # a clock is wrong: all rows are older
    assert status == 1 and "the newest row is of 20" in output and len(fleet.numbers("measurements", "true")) == 3
    fleet.land(delivery("c/collector", {"sent": now}, now))
    run_json("tables", *of, "--once")
    assert "replaced 3 files" in run("compact", *of, "--keep-measurements", "30d", "--keep-minutes", "20y")[1]
    assert run_json("export", tmp_path / "rows", *of[:2], "--follow", "--once") == []
    assert fleet.numbers() and not fleet.numbers("measurements", "true")
    (facts,) = run_json("report", *of[:2], "--grace", 0, "--device", "attic")
    assert facts["fleet"]["delivered"] == 3
    told = "Nothing is lost so far: 3 messages accepted, 3 delivered, 1 silent"  # it tells of 2020
    assert told in (tmp_path / "report.html").read_text()
    status, output = run("export", tmp_path / "out", *of[:2], "--grace", 0)
    assert status == 0, output
    found = {row["size"]: row for row in exported(tmp_path / "out/aggregates")}
    assert set(found) == {"minute", "hour", "day"}
    assert (found["day"]["count"], found["day"]["min"], found["day"]["max"], found["day"]["mean"]) == (3, 0, 2, 1)
    assert exported(tmp_path / "out/missing") == []
    (device,) = exported(tmp_path / "out/devices")
    assert (device["device"], device["accepted"], device["lost"]) == ("attic", 3, 0)


def test_a_place_of_an_unknown_scheme(tmp_path):
    (tmp_path / "landing").mkdir()
    status, output = run("tables", "--data", tmp_path, "--once", "--to", "nowhere://tables")
    assert status and 'No FileSystem for scheme "nowhere"' in output and "Traceback" not in output


def test_collector_and_spark_together(mosquitto, tmp_path):
    broker = mosquitto()
    with open(tmp_path / "log", "wb") as log:
        argv = [*INFLIGHT, "fleet", "pipeline", "--broker", f"127.0.0.1:{broker.port}", "--data", tmp_path, *ALONE]
        both = subprocess.Popen(list(map(str, argv)) + ["--every", "1"], stdout=log, stderr=log)

        def until(condition):
            end = time.monotonic() + PATIENCE_S
            while not condition():
                assert both.poll() is None and time.monotonic() < end, (tmp_path / "log").read_text()[-3000:]
                time.sleep(0.05)

        try:
            until(lambda: "connected to the broker" in (tmp_path / "log").read_text())
            body = json.dumps([{"n": "t", "v": 1, "seq": 0, "epoch": 5}])
            paho.mqtt.publish.single("inflight/attic/telemetry", body, 1, hostname="127.0.0.1", port=broker.port)
            until(lambda: list(tmp_path.glob("tables/ledger/_delta_log/*1.json")))
            both.send_signal(signal.SIGTERM)
            assert both.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()[-3000:]
        finally:
            both.terminate()
            both.wait(PATIENCE_S)
    (measured,) = DeltaTable(tmp_path / "tables/measurements").to_pyarrow_table().to_pylist()
    assert (measured["device"], measured["value"]) == ("attic", 1.0)
