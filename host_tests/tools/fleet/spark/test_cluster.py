"""`inflight fleet tables` on a cluster: a master and three workers on this machine. Each of them is killed."""

import os
import sys
from pathlib import Path

import pyspark
import pytest

from host_tests.processes import INFLIGHT
from host_tests.tools.fleet.without_spark import telemetry
from host_tests.waiting import wait_for
from tools.peers.daemon import Program, held_port
from tools.setup.spark import java_home

FILES, EACH = 20, 10_000
WORKERS = 3
_PATIENCE_S = 300


class Apart(Program):
    group = True


class Cluster:
    """A standalone master and workers of the package pyspark. A master that is started again knows them."""

    def __init__(self, folder):
        self._spark = Path(pyspark.__file__).parent / "bin/spark-class"
        self._folder = folder
        self.port = held_port(self)
        self._running = {}

    def _start(self, name, *words):
        recovery = {"recoveryMode": "FILESYSTEM", "recoveryDirectory": self._folder / "recovery"}
        env = os.environ | {"SPARK_DAEMON_MEMORY": "512m", "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": str(java_home())}
        env |= {"SPARK_WORKER_DIR": str(self._folder / name), "PYSPARK_PYTHON": sys.executable}
        env |= {"SPARK_DAEMON_JAVA_OPTS": " ".join(f"-Dspark.deploy.{key}={value}" for key, value in recovery.items())}
        program = self._running[name] = Apart(self._folder / f"{name}.log", [self._spark, *words])
        program.environ = env
        program.on(*program.argv, "--webui-port", str(held_port(self)))

    def master(self):
        """Starts the master, and waits for it."""
        before = self.log("master").count("I have been elected leader")
        self._start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", self.port)
        self._until(lambda: self.log("master").count("I have been elected leader") > before)

    def worker(self, n):
        """Starts worker number `n`, and waits for it."""
        before = self.log("master").count("Registering worker")
        where = ("--host", "127.0.0.1", "--cores", 1, "--memory", "1200m")
        self._start(f"worker{n}", "org.apache.spark.deploy.worker.Worker", *where, self.uri)
        self._until(lambda: self.log("master").count("Registering worker") > before)

    def _until(self, condition):
        wait_for(condition, _PATIENCE_S, lambda: self.log("master"))

    @property
    def uri(self):
        return f"spark://127.0.0.1:{self.port}"

    def log(self, name):
        path = self._folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def __enter__(self):
        self.master()
        for n in range(WORKERS):
            self.worker(n)
        return self

    def __exit__(self, *_):
        for name in self._running:
            self.kill(name)

    def kill(self, name):
        """Kills it together with the executors that it has started."""
        self._running[name].off()


@pytest.mark.long("INFLIGHT_PIPELINE")
@pytest.mark.timeout(3600)
def test_workers_and_master_are_killed_in_mid_stream(fleet, tmp_path):
    for n in range(FILES):
        packs = [telemetry(f"d{i % 50}", (n * EACH + i) // 50, i % 7) for i in range(EACH)]
        fleet.land(*packs, *packs[: EACH // 10])
    done = tmp_path / "tables/ledger/_delta_log"
    with Cluster(tmp_path) as cluster:
        options = ("--master", cluster.uri, "--partitions", "3", "--files", "2", "--once")
        options += ("--conf", "spark.executor.memory=700m", "--conf", "spark.driver.host=127.0.0.1")
        driver = Apart(tmp_path / "driver.log", [*INFLIGHT, "fleet", "tables", "--data", tmp_path, *options])
        driver.on()

        def until(commits):
            def reached():
                return len(list(done.glob("*.json"))) >= commits or not driver.running

            wait_for(reached, _PATIENCE_S, driver.log)

        try:
            for n in range(WORKERS):
                until(3 + 2 * n)
                cluster.kill(f"worker{n}")
                until(4 + 2 * n)
                cluster.worker(n)
            cluster.kill("master")
            cluster.master()
            assert driver.end() == 0, driver.log()
        finally:
            driver.off()
        assert cluster.log("master").count("Removing worker") >= WORKERS
    expected = sorted((f"d{i}", 7, n) for i in range(50) for n in range(FILES * EACH // 50))
    assert fleet.numbers() == fleet.numbers("measurements", "true") == expected
    assert fleet.tables.raw.read().count() == FILES * EACH * 11 // 10
    facts = fleet.facts()["fleet"]
    assert (facts["accepted"], facts["lost"], facts["doubled"]) == (FILES * EACH, 0, 0)
