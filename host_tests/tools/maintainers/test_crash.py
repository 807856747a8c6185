"""Tests of tools/crash/__main__.py with few cuts: its output, and the file that it saves after a finding."""

import json

import pytest
from typer import Typer
from typer.testing import CliRunner

import account
from inflight.session.session import Session
from tools.crash import __main__ as crash
from tools.crash import campaign, kept
from tools.crash.machine import CAMPAIGNS

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
app = Typer()
app.command()(crash.main)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "FOLDER", tmp_path)
    monkeypatch.setattr(campaign, "_SLICES", 2)
    account.quick_crc(monkeypatch.setattr)
    return tmp_path


def run(*words, cuts=80):
    return CliRunner().invoke(app, ["--cuts", str(cuts), "--seed", "5", "--erases", "3", "--jobs", "1", *words])


def test_no_finding(folder):
    result = run(cuts=20)
    assert result.exit_code in (0, 1)  # too few erases for even wear
    for name in CAMPAIGNS:
        assert f"{name}: 20 power cuts in" in result.output and "seed 5" in result.output
    for kind in ("lost", "duplicated", "ids reused", "out of order"):
        assert f"│ {kind:17} │     0" in result.output, result.output
    assert not list(folder.iterdir())


def test_finding_is_saved(folder, monkeypatch):
    monkeypatch.setattr(Session, "free_mid", lambda self, other: 7)
    monkeypatch.setattr(campaign.Endurance, "run", lambda self, erases: 0)
    result = run("--campaign", "cuts")
    assert result.exit_code == 1
    assert "three:" not in result.output
    assert "ids reused" in result.output
    script = json.loads((folder / "found-cuts-5.json").read_text())
    assert "Message ID 7" in script["why"]
    with pytest.raises(AssertionError, match="Message ID 7"):
        kept.replay(script)
