"""The command line, as the make targets call it. Each command starts a Spark of its own: these tests take minutes."""

import json
import signal
import subprocess
import time

import paho.mqtt.publish
import pyarrow.dataset as parquet
import pytest

from dev.demo import mosquitto
from host_tests.processes import INFLIGHT

ALONE = ("--master", "local[2]")
PATIENCE_S = 240

pytestmark = [pytest.mark.long("INFLIGHT_PIPELINE"), pytest.mark.timeout(900)]


def _run(*words):
    command = [*INFLIGHT, "fleet", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)


def run(*words):
    done = _run(*words)
    return done.returncode, done.stdout + done.stderr


def told(*words):
    """The JSON values that it prints, one a line, when all goes well."""
    done = _run(*words, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows(folder):
    return parquet.dataset(folder, partitioning="hive").to_table().to_pylist()


def test_from_landing_files_to_a_report_and_to_files_for_others(fleet, telemetry, tmp_path):
    for n in range(3):
        fleet.land(telemetry("attic", n, n))
    of = ("--data", tmp_path, *ALONE)
    batches = told("tables", *of, "--once", "--files", "1")
    assert [(batch["batch"], batch["deliveries"]) for batch in batches] == [(0, 1), (1, 1), (2, 1)]
    assert all(batch["seconds"] > 0 for batch in batches)
    assert "2 folders went into larger ones" not in run("compact", *of)[1]  # three batches are too few
    (facts,) = told("report", *of, "--grace", 0, "--device", "attic")
    assert facts["fleet"]["delivered"] == 3
    assert "Nothing was lost: 3 messages accepted" in (tmp_path / "report.html").read_text()
    status, said = run("export", tmp_path / "out", *of, "--grace", 0)
    assert status == 0, said
    found = {row["size"]: row for row in rows(tmp_path / "out/aggregates")}
    assert set(found) == {"minute", "hour", "day"}
    assert (found["day"]["count"], found["day"]["min"], found["day"]["max"], found["day"]["mean"]) == (3, 0, 2, 1)
    (device,) = rows(tmp_path / "out/devices")
    assert (device["device"], device["accepted"], device["lost"]) == ("attic", 3, 0)


def test_a_report_of_nothing_says_what_to_do(tmp_path):
    status, said = run("report", "--data", tmp_path, *ALONE)
    assert status == 0, said
    assert "make pipeline" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("--master", "nonsense"), "spark://host:7077, yarn"),
        (("--conf", "nonsense"), "--conf wants name=value"),
        (("--to", "nowhere://tables"), 'No FileSystem for scheme "nowhere"'),
    ],
)
def test_what_cannot_be_done_is_told_in_a_line(tmp_path, words, advice):
    status, said = run("tables", "--data", tmp_path, "--once", *words)
    assert status and advice in " ".join(said.replace("│", " ").split()) and "Traceback" not in said


@pytest.mark.skipif(bool(mosquitto.unavailable()), reason=mosquitto.unavailable())
def test_collector_and_spark_together(tmp_path):
    with mosquitto.Mosquitto(tmp_path / "broker") as broker, open(tmp_path / "log", "wb") as log:
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
            until(lambda: list(tmp_path.glob("tables/measurements/batch=*/_SUCCESS")))
            both.send_signal(signal.SIGTERM)
            assert both.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()[-3000:]
        finally:
            both.terminate()
            both.wait(PATIENCE_S)
    (measured,) = rows(tmp_path / "tables/measurements")
    assert (measured["device"], measured["value"]) == ("attic", 1.0)
