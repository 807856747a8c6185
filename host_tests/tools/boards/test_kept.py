"""What was made of the same sources before is read from the cache."""

import os
import subprocess
import sys

import pytest

from inflight_tools.boards.build import kept as tool
from inflight_tools.boards.build.kept import kept


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Makes something; `made` lists of what."""
    monkeypatch.setenv("INFLIGHT_CACHE", str(tmp_path))

    def make(text):
        make.made.append(text)
        return {"of": text, "bytes": "\0ÿ"}

    make.made = []
    return make


def files(folder):
    return sorted((folder / "made").iterdir(), key=lambda file: file.stat().st_mtime)


def test_made_once(make, tmp_path, monkeypatch):
    """And again if the file is damaged; always where the cache cannot be written."""
    first = kept(make, "a")
    assert kept(make, "a") == first == {"of": "a", "bytes": "\0ÿ"}
    (file,) = files(tmp_path)
    file.write_text(file.read_text()[:-3])
    for _ in range(2):
        assert kept(make, "a")["of"] == "a"
    assert kept(make, "b")["of"] == "b"
    assert make.made == ["a", "a", "b"]
    (tmp_path / "file").write_text("where the folder should be")
    monkeypatch.setenv("INFLIGHT_CACHE", str(tmp_path / "file"))
    assert kept(make, "a")["of"] == "a"


_TWICE = """
from inflight_tools.boards.build.kept import kept
def make(text):
    print("made", flush=True)
    input()
    return text
print(kept(make, "a"))
"""


def test_processes_wait_for_the_one_that_makes_it(tmp_path):
    """Workers that begin at the same time would all shrink the same sources."""
    environment = os.environ | {"INFLIGHT_CACHE": str(tmp_path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    first = subprocess.Popen([sys.executable, "-c", _TWICE], **pipes)
    assert first.stdout.readline() == "made\n"
    second = subprocess.Popen([sys.executable, "-c", _TWICE], **pipes)
    assert first.communicate("\n")[0] == "a\n"
    assert second.communicate("\n")[0] == "a\n"
    assert [file.suffix for file in files(tmp_path)] == [".json"]


def test_other_tools_make_it_again(make, monkeypatch):
    kept(make, "a")
    monkeypatch.setattr(tool, "tools_used", lambda: ["another version"])
    kept(make, "a")
    assert make.made == ["a", "a"]


def test_the_oldest_are_forgotten(make, tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "_MOST", 2)
    for age, text in enumerate("abc"):
        kept(make, text)
        os.utime(files(tmp_path)[-1], (1000 + age, 1000 + age))
    assert len(files(tmp_path)) == 2
    kept(make, "c")
    assert make.made == ["a", "b", "c"]
