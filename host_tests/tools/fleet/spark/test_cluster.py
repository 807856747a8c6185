"""`inflight fleet tables` on a cluster: a master and two workers on this machine. One worker is killed."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from host_tests.processes import INFLIGHT
from host_tests.waiting import wait_for
from tools.peers.daemon import held_port
from tools.setup.spark import java_home

FILES, EACH = 20, 1000
_PATIENCE_S = 300


class Cluster:
    """A standalone master and workers of the package pyspark."""

    def __init__(self, folder):
        import pyspark

        self._spark = Path(pyspark.__file__).parent / "bin/spark-class"
        self._folder = folder
        self.master = f"spark://127.0.0.1:{held_port(self)}"
        self._running = contextlib.ExitStack()

    def _start(self, name, *words):
        env = os.environ | {"SPARK_DAEMON_MEMORY": "512m", "SPARK_LOCAL_IP": "127.0.0.1", "JAVA_HOME": str(java_home())}
        env |= {"SPARK_WORKER_DIR": str(self._folder / name), "PYSPARK_PYTHON": sys.executable}
        with open(self._folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen([self._spark, *words], env=env, stdout=log, stderr=log, start_new_session=True)
        self._running.callback(self.kill, process)
        return process

    def log(self, name):
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def __enter__(self):
        port = self.master.rsplit(":", 1)[1]
        where = ("--host", "127.0.0.1", "--port", port, "--webui-port", held_port(self))
        self._start("master", "org.apache.spark.deploy.master.Master", *map(str, where))
        self.workers = []
        for n in range(2):
            where = (
                "--host",
                "127.0.0.1",
                "--cores",
                1,
                "--memory",
                "1200m",
                "--webui-port",
                held_port(self),
                self.master,
            )
            self.workers.append(self._start(f"worker{n}", "org.apache.spark.deploy.worker.Worker", *map(str, where)))
        wait_for(lambda: self.log("master").count("Registering worker") == 2, _PATIENCE_S, lambda: self.log("master"))
        return self

    def __exit__(self, *_):
        self._running.close()

    @staticmethod
    def kill(process):
        """Kills it together with the executors that it has started."""
        if process.poll() is None:
            os.killpg(process.pid, 9)
            process.wait()


@pytest.mark.long("INFLIGHT_PIPELINE")
@pytest.mark.timeout(1800)
def test_a_worker_is_killed_in_mid_stream(fleet, telemetry, tmp_path):
    for n in range(FILES):
        packs = [telemetry(f"d{i % 50}", (n * EACH + i) // 50, i % 7) for i in range(EACH)]
        fleet.land(*packs, *packs[: EACH // 10])
    done = tmp_path / "tables/ledger/_delta_log"
    with Cluster(tmp_path) as cluster:
        options = ("--master", cluster.master, "--partitions", "2", "--files", "2", "--once")
        options += ("--conf", "spark.executor.memory=700m", "--conf", "spark.driver.host=127.0.0.1")
        argv = [*INFLIGHT, "fleet", "tables", "--data", tmp_path, *options]
        log = tmp_path / "driver.log"
        with open(log, "wb") as out:
            driver = subprocess.Popen([str(word) for word in argv], stdout=out, stderr=out, start_new_session=True)
        try:
            wait_for(
                lambda: len(list(done.glob("*.json"))) >= 3 or driver.poll() is not None,
                _PATIENCE_S,
                log.read_text,
            )
            cluster.kill(cluster.workers[0])
            assert driver.wait(_PATIENCE_S) == 0, log.read_text()[-3000:]
        finally:
            cluster.kill(driver)
        assert cluster.log("worker1").count("Asked to launch executor") >= 1
        assert "Removing worker" in cluster.log("master")
    expected = sorted((f"d{i}", 7, n) for i in range(50) for n in range(FILES * EACH // 50))
    assert fleet.numbers() == fleet.numbers("measurements", "true") == expected
    assert fleet.tables.raw.read().count() == FILES * EACH * 11 // 10
    facts = fleet.facts()["fleet"]
    assert (facts["accepted"], facts["lost"], facts["doubled"]) == (FILES * EACH, 0, 0)
