"""`inflight fleet upload` and `download` as commands."""

import json


def test_there_and_back(way, run_here):
    way.land("c-1-000000.ndjson")
    done = run_here("upload", way.uri, "--landing", way.here, "--once")
    assert done.exit_code == 0 and "uploaded 1 file, 5 bytes; 0 wait" in done.stderr
    done = run_here("download", way.uri, "--landing", way.there, "--once", "--json")
    told = json.loads(done.stdout)
    assert done.exit_code == 0 and told.pop("seconds") >= 0
    assert told == {"downloaded": 1, "bytes": 5, "waiting": 0, "errors": 0}
    assert way.arrived() == {"c-1-000000.ndjson": "line\n"}


def test_what_fails_is_said_and_ends_with_1(way, run_here, tmp_path):
    done = run_here("upload", way.uri, "--data", tmp_path / "nowhere", "--once")
    assert done.exit_code == 1 and "there is no folder" in done.stderr
    done = run_here("upload", "nonsense", "--landing", way.here, "--once")
    assert done.exit_code == 1 and "a URI like s3://bucket/folder" in done.stderr
    done = run_here("download", way.uri, "--landing", way.there, "--once", "--metrics", "nonsense")
    assert done.exit_code == 1 and "a port, or host:port" in done.stderr
    way.land("c-1-000000.ndjson")
    run_here("upload", way.uri, "--landing", way.here, "--once")
    next(way.bucket.glob("c*")).write_text("half")
    done = run_here("download", way.uri, "--landing", way.there, "--once")
    assert done.exit_code == 1 and "is not what was uploaded" in done.stderr
