"""The bench runs, small, and has a figure for all that it promises. How large they are is nobody's promise."""

import json
import os
import signal
import subprocess
import sys

import pytest


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
    tables = json.loads(out.read_text())["tables"]
    figures = [
        (row, figure) for columns in tables.values() for column in columns.values() for row, figure in column.items()
    ]
    assert [row for row, figure in figures if not isinstance(figure, str) and not figure > 0] == []
    assert [*tables["Stages, deliveries/s (share of the ceiling)"]] == ["3,000 rows"]
    assert [*tables["Small micro-batches"]] == ["2 batches of 50 deliveries"]
    assert len(tables) == len([line for line in said.splitlines() if line.startswith("**")]) == 7
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]
