"""The archive of Spark's classes: used if it is there, made by a Spark that runs."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from inflight_tools.fleet.spark import classes

JAVA = Path("/opt/java-99")


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A virtual environment in a folder whose name has a space."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "my env"))


def made(monkeypatch, status, text, writes=True):
    def run(words, env, **_):
        assert "--once" in words
        target = env["JDK_JAVA_OPTIONS"].split('"')[1]
        if writes:
            Path(target).write_bytes(b"classes")
        return SimpleNamespace(returncode=status, stdout=text, stderr="")

    monkeypatch.setattr(subprocess, "run", run)


def test_without_an_archive_java_gets_no_option(environment):
    assert classes.options(JAVA) == ""


def test_an_archive_is_used(environment, monkeypatch):
    made(monkeypatch, 0, "")
    classes.make(JAVA)
    assert classes.archive(JAVA).read_bytes() == b"classes"
    assert f'"-XX:SharedArchiveFile={classes.archive(JAVA)}"' in classes.options(JAVA)
    assert classes.options(Path("/opt/java-100")) == ""


@pytest.mark.parametrize(
    "status, text, writes, problem",
    [(1, "Traceback\nFAILED: no space", True, "^FAILED: no space$"), (0, "", False, "^Java wrote no archive$")],
)
def test_a_spark_that_fails_leaves_none(environment, monkeypatch, status, text, writes, problem):
    made(monkeypatch, status, text, writes)
    with pytest.raises(RuntimeError, match=problem):
        classes.make(JAVA)
    assert classes.options(JAVA) == ""
