"""A small bench of the pipeline has a figure for all that it promises; a small demonstration loses nothing."""

import json
import os
import re
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
    small = ["--millions", "0.003", "--history", "3", "--small", "2", "--fleets", "1000"]
    small += ["--collector", "2000", "--delay", "5", "--console", "100", "--runs", "1"]
    argv = [sys.executable, "-m", "tools.bench.bench_pipeline", *small, "--markdown", "--json", out]
    status, said, errors = _run([str(word) for word in argv])
    assert status == 0, errors[-3000:]
    tables = json.loads(out.read_text())["tables"]
    columns = [column for columns in tables.values() for column in columns.values()]
    figures = [one for column in columns for one in column.items() if not isinstance(one[1], str)]
    assert [row for row, figure in figures if not figure > 0] == []
    (stages,) = tables["Stages, deliveries/s (share of the ceiling)"].values()
    assert {"all tables", "plain Spark", "DuckDB", "Polars", "processor, all tables to plain Spark"} <= {*stages}
    assert [*tables["Small micro-batches"]] == ["2 batches of 50 deliveries"]
    assert len(tables) == len([line for line in said.splitlines() if line.startswith("**")]) == 7
    assert [path.name for path in tmp_path.iterdir()] == ["figures.json"]


def _table(text):
    """{first cell: the other cells} of the tables in the text."""
    lines = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    return {name: cells for name, *cells in lines}


@pytest.mark.timeout(1800)
@pytest.mark.long("INFLIGHT_PIPELINE")
def test_a_small_fleet_loses_nothing(tmp_path):
    page = tmp_path / "report.html"
    words = ["--devices", "4", "--duration", "6", "--seed", "1", "--report", str(page)]
    status, said, errors = _run([sys.executable, "-m", "tools.demo", *words])
    assert status == 0, said + errors
    assert "Nothing was lost" in said
    received, reported = (_table(part) for part in said.split("Figures of the report"))
    rows = {name: cells[:2] for name, cells in received.items()}
    assert [int(n) for n in rows["lost"]] == [0, 0]
    assert int(rows["duplicated"][1]) == 0
    assert all(int(n) > 0 for n in rows["accepted"])
    assert rows["accepted"] == rows["delivered"]
    assert "power cuts survived: 10" in said
    places = ("still in a journal", "acknowledged, on the way", "acknowledged, lost", "given up by a device")
    assert {reported[name][0] for name in (*places, "duplicate rows", "dead letters")} == {"0"}
    assert int(reported["in the tables"][0]) >= sum(map(int, rows["accepted"]))
    assert "collector killed: 2" in said
    assert re.search("Nothing (was|is) lost", page.read_text())  # the ends of devices that were killed are unknown
