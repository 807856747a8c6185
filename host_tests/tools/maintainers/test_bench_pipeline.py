"""The bench runs, small, and has a figure for all that it promises. How large they are is nobody's promise."""

import json
import os
import signal
import subprocess
import sys

import pytest


def _numbers(value, path=""):
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _numbers(part, f"{path}/{name}")
    elif isinstance(value, list):
        for place, part in enumerate(value):
            yield from _numbers(part, f"{path}/{place}")
    elif not isinstance(value, str):
        yield path, value


def _run(argv):
    """(status, stdout, stderr). Out of time, it ends with all that it has started."""
    pipe = subprocess.PIPE
    bench = subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        said, errors = bench.communicate()
        return bench.returncode, said, errors
    finally:
        if bench.returncode is None:
            os.killpg(bench.pid, signal.SIGKILL)
            bench.wait()


@pytest.mark.long("INFLIGHT_PIPELINE")
@pytest.mark.timeout(1800)
def test_each_part_has_its_figures(tmp_path):
    out = tmp_path / "figures.json"
    small = ["--millions", "0.003", "--history", "3", "--small", "2", "--commits", "3", "--fleets", "1000"]
    small += ["--collector", "2000", "--delay", "5", "--runs", "1"]
    argv = [sys.executable, "-m", "tools.bench.bench_pipeline", *small, "--markdown", "--json", out]
    status, said, errors = _run([str(word) for word in argv])
    assert status == 0, errors[-3000:]
    figures = json.loads(out.read_text())
    assert set(figures) == {"machine", "stages", "history", "small", "commits", "fleets", "collector", "delay"}
    empty = {"load", "health", "dead_letters", "source_log_bytes"}  # of a run that is so small
    assert [path for path, value in _numbers(figures) if not value > 0 and path.split("/")[-1] not in empty] == []
    assert figures["stages"][0]["messages"] == 1000
    assert figures["stages"][0]["deliveries"] == 1020
    assert len(figures["history"]["batch_s"]) == 3
    titles = [line for line in said.splitlines() if line.startswith("**")]
    assert len(titles) == 8
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]
