"""`make bench` with a few messages of each: what is exact is held to here, rates are told and not judged."""

import dataclasses
import json
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from host_tests.absent import interpreter
from tools.bench import benchmark
from tools.bench.figures import measure
from tools.bench.figures.run import OURS, Code, Failed
from tools.peers.mosquitto import unavailable

WORKER = "bench"


def _available(name):
    if unavailable():
        pytest.skip(unavailable())
    return interpreter(name)


@pytest.mark.parametrize("name", ["micropython-x86", "micropython-armhf"])
def test_steady_state_allocates_nothing(name, mosquitto, tmp_path):
    """200 publishes with the journal in a file: not one byte, at any QoS and level; 200 receipts: what the handler asks
    for."""
    code = Code(tmp_path / "code", _available(name))
    both = measure.costs(code, mosquitto().port, ["ours", "ours_level_5"], measure.FULL)
    for found in both.values():
        for qos in range(3):
            assert found[f"publish_{qos}"] == 0
            assert found[f"receive_{qos}"] == 32  # the view of the payload; the topic is known
    # What the client holds does not creep up unnoticed, nor what level 5 adds.
    found, level_5 = both.values()
    assert found["import"] <= 28_640 and level_5["import"] <= 34_608
    assert found["client"] <= 2560 and level_5["client"] <= 3400
    # 2,240 bytes are MicroPython's table of names, which doubles as the journal is loaded, or as the client connects. A
    # random number of the journal takes 32 bytes if it has more than 30 bits: 6,960 and 7,792 are the least. The 301st
    # name takes 2,272 more: level 5 has 288 when it is connected.
    assert found["journal"] + found["client"] <= 7_024 and level_5["journal"] + level_5["client"] <= 7_920


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What a run with other clients beside ours, which fail, wrote and printed."""
    _available(benchmark.best_runtime().name)
    folder = tmp_path_factory.mktemp("bench")
    (folder / "peers/umqtt").mkdir(parents=True)
    for name in ("simple", "simple2"):
        (folder / f"peers/umqtt/{name}.py").write_text("raise OSError('no thanks')\n")
    effort = dataclasses.replace(measure.TINY, heap=16_384)
    words = ["--tiny", "--markdown", "--peers", folder / "peers", "--json", folder / "bench.json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measure, "TINY", effort)
        done = CliRunner().invoke(benchmark.app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return json.loads((folder / "bench.json").read_text()), done.stdout, folder


@pytest.mark.long("INFLIGHT_TOOLS")
def test_a_run_has_a_figure_for_each_client_in_each_row(measured):
    """Those that fail leave ours its own."""
    figures, text, folder = measured
    goals = [[cell.strip() for cell in line.split("|")[3:-1]] for line in text.splitlines() if line.startswith("| ")]
    names, _, *rows = goals[:23]
    assert names == ["Inflight", "umqtt.simple", "umqtt.simple2", "level 5", "WebSocket"]
    for column in (1, 2):
        failed = [row[column] for row in rows if row[column] != "-"]
        assert len(failed) == 15 and {*failed} == {"OSError: no thanks"}
    assert all(row[0] not in ("", "-") for row in rows) and "Inflight | Paho |" in text
    assert figures["sizes"]["umqtt_simple"]["umqtt/simple"] > 0
    for name in ("throughput.svg", "wear.svg"):
        assert len(ElementTree.parse(folder / name).getroot().findall("{*}path")) >= 4


@pytest.mark.long("INFLIGHT_TOOLS")
def test_flash_that_a_message_takes(measured):
    """15 bytes around a PUBLISH of 95, and one byte programmed again for each state. Files of littlefs take more."""
    rows = measured[0]["wear"]
    ours = {(row["kind"], row["qos"]): row for row in rows if row["way"] == OURS}
    assert {row["record"] for (kind, qos), row in ours.items() if kind == "bytes" and qos} == {110}
    assert all(row["programmed"] == 0 for (_, qos), row in ours.items() if not qos)
    assert ours["bytes", 1]["programmed"] < ours["bytes", 2]["programmed"] < 112
    most = max(row["erases"] for row in ours.values())
    assert all(row["erases"] > most and row["programmed"] > 111 for row in rows if row["way"] != OURS)


@pytest.mark.long("INFLIGHT_TOOLS")
def test_a_script_that_fails_says_why(tmp_path):
    code = Code(tmp_path, _available(benchmark.best_runtime().name))
    with pytest.raises(Failed, match="(?s)modules.*MemoryError"):
        code.run("modules", "core client", heap=20_000)
    with pytest.raises(Failed, match="modules .*: no end within 0 s"):
        code.run("modules", "core client", timeout=0)
