"""Spark properties, options of Java, and what other users of the machine see of a session."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from inflight_tools.fleet.spark import session

SECRET = "hush=\\u0041 :#!'\"\u00fc\\"
SCRIPT = """
import json, signal, sys
from pathlib import Path
from inflight_tools.fleet.spark.session import session

signal.signal(signal.SIGTERM, lambda *_: None)
name = "spark.hadoop.fs.s3a.secret.key"
options = {"spark.driver.memory": "1g", name: sys.stdin.readline()[:-1]}
spark = session("tests", Path(sys.argv[1]), "local[2]", options=options)
assert spark.sparkContext.parallelize(range(10), 2).map(str).count() == 10
print(json.dumps(spark.sparkContext.getConf().get(name)), flush=True)
sys.stdin.readline()
assert spark.range(10).count() == 10
spark.stop()
"""
LISTENS = "0A"
LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


def processes(pid):
    """The folders in /proc of a process and of those that it has started."""
    folder = Path(f"/proc/{pid}")
    children = [child for task in folder.glob("task/*/children") for child in task.read_text().split()]
    return [folder] + [found for child in children for found in processes(child)]


def listening(folder):
    """The addresses, as in /proc/net/tcp, at which a process waits for connections."""
    sockets = {os.readlink(fd) for fd in folder.glob("fd/*") if fd.is_symlink()}
    lines = [line.split() for name in ("tcp", "tcp6") for line in (folder / "net" / name).read_text().splitlines()[1:]]
    return [line[1].split(":")[0] for line in lines if line[3] == LISTENS and f"socket:[{line[9]}]" in sockets]


@pytest.mark.long("INFLIGHT_TOOLS")
def test_other_users_and_machines(tmp_path):
    """A secret in an option is in no list of processes; all ports are on loopback, and this Spark and this Python run,
    whatever the environment says."""
    words = [sys.executable, "-c", SCRIPT, tmp_path]
    env = os.environ | {"SPARK_LOCAL_IP": "0.0.0.0", "SPARK_HOME": "/none", "PYSPARK_PYTHON": "/none/python"}
    pipe = subprocess.PIPE
    how = {"stdin": pipe, "stdout": pipe, "encoding": "utf-8", "start_new_session": True}
    with subprocess.Popen(words, env=env, **how) as running:
        running.stdin.write(SECRET + "\n")
        running.stdin.flush()
        assert json.loads(running.stdout.readline()) == SECRET
        commands, ports = [], []
        for folder in processes(running.pid):
            with contextlib.suppress(OSError):  # Java starts some that end at once
                commands.append((folder / "cmdline").read_bytes())
                ports += listening(folder)
        assert any(b"SparkSubmit" in command for command in commands)
        assert not [command for command in commands if b"hush" in command]
        assert ports and set(ports) <= set(LOOPBACK), ports
        assert (tmp_path / "spark.properties").stat().st_mode & 0o777 == 0o600
        os.killpg(running.pid, signal.SIGTERM)  # as `timeout` and systemd do: Java goes on until the program ends it
        running.communicate("\n")
    assert running.returncode == 0


def test_options_keep_their_names(spark):
    """And they are no other session's, of a process that this one starts."""
    assert spark.conf.get("spark.executorEnv.OF_TESTS") == "1"
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ


@pytest.mark.parametrize("name", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
def test_java_gets_no_second_garbage_collector(monkeypatch, name):
    """It would not start."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    assert session.garbage_collector() == "-XX:+UseParallelGC"
    monkeypatch.setenv(name, "-Xmx1g -XX:+UseSerialGC")
    assert session.garbage_collector() == ""
