"""What `inflight fleet tables` says while its query runs. The query is a stand-in."""

import threading
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import typer
from typer.testing import CliRunner

from inflight_tools.fleet.commands import app
from inflight_tools.fleet.spark import command


@pytest.fixture
def tables(monkeypatch, tmp_path):
    """tables(while_it_runs) runs the command. Where Spark would start it calls while_it_runs(), and ends."""
    (tmp_path / "landing").mkdir()

    def run(while_it_runs):
        def begun():
            while_it_runs()
            raise typer.Exit

        monkeypatch.setattr(command, "stop_event", begun)
        return CliRunner().invoke(app, ["tables", "--data", str(tmp_path)])

    return run


def test_only_one_at_a_time_writes_tables(tables, tmp_path):
    refused = []
    for _ in range(2):
        assert tables(lambda: refused.append(tables(refused.clear))).exit_code == 0
    said = f"another `inflight fleet tables` writes the tables in {tmp_path}/tables: stop it first"
    assert [(one.exit_code, said in one.output) for one in refused] == [(1, True)] * 2


@pytest.mark.parametrize("stuck", [0, 3])
def test_landing_files_that_stay_unread_are_an_alarm(capsys, stuck):
    query = SimpleNamespace(isActive=False, recentProgress=[], exception=lambda: None)
    command.follow(query, SimpleNamespace(stuck=lambda: ["_c-1.ndjson"] * stuck), threading.Event(), False)
    assert ("ALARM: 3 landing files stay unread, for example _c-1.ndjson: " in capsys.readouterr().err) == bool(stuck)


FULL = "An error occurred while calling o9.parquet. Caused by: java.io.IOException: No space left on device"


def ended(error=None, rows=0):
    """A query that has ended, after a batch of so many rows."""
    progress = {"batchId": 0, "numInputRows": rows, "durationMs": {"triggerExecution": 1}}
    return SimpleNamespace(isActive=False, recentProgress=[progress], exception=lambda: error)


@pytest.fixture
def going_on(monkeypatch, tmp_path):
    """going_on(what, ...) writes tables with these queries, or errors of their starts, one after the other."""
    monkeypatch.setattr(command, "_FULL_S", 0)

    def run(*what, once=False, stuck=()):
        begin = Mock(side_effect=what)
        watch = SimpleNamespace(stuck=lambda: stuck)
        places = [tmp_path, "s3://bucket/tables"]
        command.go_on(begin, watch, threading.Event(), False, places, lambda error: "torn" in error, once=once)
        assert begin.call_count == len(what)

    return run


def test_a_full_disk_is_told_and_waited_for(going_on, tmp_path, capsys):
    going_on(ended(FULL), OSError(28, "No space left on device"), ended(FULL, rows=3), ended(FULL), ended())
    said = f"no space left on {tmp_path}: nothing was lost, and it goes on when there is space"
    assert capsys.readouterr().err.count(said) == 2  # again after a batch


def test_a_full_disk_ends_a_run_of_a_cron_job(going_on, tmp_path, capsys):
    with pytest.raises(typer.Exit) as left:
        going_on(ended(FULL), once=True)
    said = f"no space left on {tmp_path}: nothing was lost, and the next run goes on when there is space"
    assert left.value.exit_code == 1 and said in capsys.readouterr().err


def test_it_goes_on_when_a_file_was_set_aside(going_on):
    going_on(ended("c-1.ndjson is torn"), ended("c-2.ndjson is torn"), ended(), once=True)


def test_a_file_that_nothing_reads_fails_a_cron_job(going_on):
    with pytest.raises(typer.Exit) as left:
        going_on(ended(), once=True, stuck=["_c-1.ndjson"])
    assert left.value.exit_code == 1


def test_another_error_is_not_waited_for(going_on):
    with pytest.raises(RuntimeError, match="the query ended: a disk that burns"):
        going_on(ended("a disk that burns"))
