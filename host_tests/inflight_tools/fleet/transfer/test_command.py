"""`inflight fleet upload` and `download` as commands."""

import json

import pytest
from typer.testing import CliRunner

from inflight_tools.fleet import commands


@pytest.fixture
def run(monkeypatch):
    """run(word, ...) returns the finished command."""
    import threading

    monkeypatch.setattr(commands, "_stop_event", threading.Event)  # the tests keep their signal handlers
    return lambda *words: CliRunner().invoke(commands.app, [str(word) for word in words], env={"COLUMNS": "400"})


def test_there_and_back(way, run):
    way.land("c-1-000000.ndjson")
    done = run("upload", way.uri, "--landing", way.here, "--once")
    assert done.exit_code == 0 and "uploaded 1 file, 5 bytes; 0 wait" in done.stderr
    done = run("download", way.uri, "--landing", way.there, "--once", "--json")
    told = json.loads(done.stdout)
    assert done.exit_code == 0 and told.pop("seconds") >= 0
    assert told == {"downloaded": 1, "bytes": 5, "waiting": 0, "errors": 0}
    assert way.arrived() == {"c-1-000000.ndjson": "line\n"}


def test_what_fails_is_said_and_ends_with_1(way, run, tmp_path):
    done = run("upload", way.uri, "--data", tmp_path / "nowhere", "--once")
    assert done.exit_code == 1 and "there is no folder" in done.stderr
    done = run("upload", "nonsense", "--landing", way.here, "--once")
    assert done.exit_code == 1 and "a URI like s3://bucket/folder" in done.stderr
    done = run("download", way.uri, "--landing", way.there, "--once", "--metrics", "nonsense")
    assert done.exit_code == 1 and "a port, or host:port" in done.stderr
    way.land("c-1-000000.ndjson")
    run("upload", way.uri, "--landing", way.here, "--once")
    next(way.bucket.glob("c*")).write_text("half")
    done = run("download", way.uri, "--landing", way.there, "--once")
    assert done.exit_code == 1 and "is not what was uploaded" in done.stderr
