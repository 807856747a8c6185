"""`make bench` with a few messages of each: what is exact is held to here, rates are told and not judged."""

import dataclasses
import json
import keyword
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from inflight_tools.boards.build.bundle import LIB
from inflight_tools.boards.build.rename import mentioned
from tools.bench import benchmark
from tools.bench.figures import measure, peers
from tools.bench.figures.plot import svg
from tools.bench.figures.run import OURS, Code, Failed, responder
from tools.bench.figures.show import tables
from tools.peers.mosquitto import unavailable
from tools.runtimes import runtime

WORKER = "bench"
HERE = Path(__file__).parent


def _available(name):
    if unavailable():
        pytest.skip(unavailable())
    found = runtime(name)
    if found.reason:
        pytest.skip(f"{name}: {found.reason}")
    return found


@pytest.mark.parametrize("name", ["micropython-x86", "micropython-armhf"])
def test_steady_state_allocates_nothing(name, mosquitto, tmp_path):
    """200 publishes with the journal in a file: not one byte, at any QoS and level; 200 receipts: what the handler asks
    for."""
    code = Code(tmp_path / "code", _available(name))
    both = measure.costs(code, mosquitto().port, ["ours", "ours_level_5"], measure.FULL, tmp_path)
    for found in both.values():
        for qos in range(3):
            assert found[f"publish_{qos}"] == 0
            assert found[f"receive_{qos}"] == 32  # the view of the payload; the topic is known
    # What the client holds does not creep up unnoticed, nor what level 5 adds.
    found, level_5 = both.values()
    assert found["import"] <= 29_760 and level_5["import"] <= 36_480
    assert found["client"] <= 2700 and level_5["client"] <= 6000
    # 2,240 bytes are MicroPython's table of names, which doubles as the journal is loaded, or as the client connects.
    assert found["journal"] + found["client"] <= 7000 and level_5["journal"] + level_5["client"] <= 10_600


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What a run with another client beside ours wrote, and printed."""
    _available(benchmark.best_runtime().name)
    folder = tmp_path_factory.mktemp("bench")
    (folder / "peers/simple/umqtt").mkdir(parents=True)
    shutil.copy(HERE / "standin_peer.py", folder / "peers/simple/umqtt/simple.py")
    words = ["--tiny", "--markdown", "--peers", folder / "peers", "--json", folder / "bench.json"]
    done = CliRunner().invoke(benchmark.app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return json.loads((folder / "bench.json").read_text()), done.stdout, folder


@pytest.mark.long("INFLIGHT_TOOLS")
def test_a_message_takes_its_record_and_its_marks_of_the_flash(measured):
    """15 bytes around a PUBLISH of 95, and one byte programmed again for each state."""
    ours = {(row["kind"], row["qos"]): row for row in measured[0]["wear"] if row["way"] == "inflight"}
    assert {row["record"] for (kind, qos), row in ours.items() if kind == "bytes" and qos} == {110}
    assert all(row["programmed"] == 0 for (_, qos), row in ours.items() if not qos)
    assert ours["bytes", 1]["programmed"] < ours["bytes", 2]["programmed"] < 112


@pytest.mark.long("INFLIGHT_TOOLS")
def test_littlefs_takes_more(measured):
    rows = measured[0]["wear"]
    ours = max(row["erases"] for row in rows if row["way"] == "inflight")
    assert all(row["erases"] > ours and row["programmed"] > 111 for row in rows if row["way"] != "inflight")


@pytest.mark.long("INFLIGHT_TOOLS")
def test_another_client_stands_beside_ours_in_every_row(measured):
    figures, text, _ = measured
    assert list(figures["costs"]) == list(figures["rates"]) == ["ours", "umqtt_simple"]
    assert figures["costs"]["umqtt_simple"]["publish_1"] > 0
    assert figures["sizes"]["umqtt_simple"]["umqtt/simple"] > 100
    assert "Inflight | umqtt.simple |" in text
    goals = [line for line in text.splitlines() if line.startswith("| ")][:20]
    assert len({line.count("|") for line in goals[:18]}) == 1


@pytest.mark.long("INFLIGHT_TOOLS")
def test_level_5_stands_beside_level_4_and_paho(measured):
    figures, text, _ = measured
    level_5 = figures["level_5"]
    assert list(level_5["costs"]) == list(level_5["rates"]) == ["ours_level_5"]  # the other one does not speak it
    assert set(level_5["costs"]["ours_level_5"]) == set(figures["costs"]["ours"])
    assert "level 4 | level 5 |" in text and "Inflight | Paho |" in text
    taken = level_5["on_cpython"]["memory"]
    assert all(0 < found["publish"] < found["client"] for found in taken.values())


@pytest.mark.long("INFLIGHT_TOOLS")
def test_another_client_does_not_make_ours_larger(tmp_path):
    """Whatever names it has inside."""
    names = mentioned((LIB / "inflight/session/session.py").read_text()) - mentioned(
        (HERE / "standin_peer.py").read_text()
    )
    text = (HERE / "standin_peer.py").read_text() + "".join(
        f"    {name} = 0\n" for name in sorted(names) if _is_name(name)
    )
    (tmp_path / "umqtt").mkdir()
    (tmp_path / "umqtt/simple.py").write_text(text)
    interpreter = benchmark.best_runtime()
    alone, beside = Code(tmp_path / "1", interpreter), Code(tmp_path / "2", interpreter, peers.find(tmp_path))
    assert sum(beside.sizes[OURS].values()) <= sum(alone.sizes[OURS].values()) * 1.005


class Fragile:
    """Stands in for Code, with a client that works with each other heap from 12,288 bytes on."""

    def __init__(self):
        self.runs = 0

    def run(self, script, name, *args, heap, **options):
        self.runs += 1
        if heap < 12_288 or heap // 256 % 2:
            raise Failed(name, "no end within 20 s", "")
        return True


@pytest.mark.long("INFLIGHT_TOOLS")
def test_a_client_that_hangs_now_and_then_is_not_tried_for_ever(tmp_path):
    code = Fragile()
    found = measure.smallest(code, 0, ["umqtt_simple2"], measure.TINY, tmp_path)["umqtt_simple2"]
    assert 12_288 <= found < 262_144 and code.runs < 15


def _is_name(word):
    return word.isidentifier() and not keyword.iskeyword(word)


HANGS = "import time\ntime.sleep(1000)\n"
RAISES = "class MQTTClient:\n    def __init__(self, *args):\n        raise OSError('no thanks')\n"


@pytest.mark.long("INFLIGHT_TOOLS")
def test_clients_that_hang_or_fail_leave_the_others_their_figures(measured, mosquitto, tmp_path):
    """One hangs at once, one raises: in each part their cells say that, and all other cells stand."""
    for name, text in (("simple", HANGS), ("simple2", RAISES)):
        (tmp_path / "umqtt").mkdir(exist_ok=True)
        (tmp_path / f"umqtt/{name}.py").write_text(text)
    code = Code(tmp_path / "code", benchmark.best_runtime(), peers.find(tmp_path))
    effort = dataclasses.replace(measure.TINY, peer_s=1)
    names = ["umqtt_simple", "umqtt_simple2"]
    port = mosquitto().port
    with responder() as answering:
        theirs = {
            "costs": measure.costs(code, port, names, effort, tmp_path),
            "smallest": measure.smallest(code, port, names, effort, tmp_path),
            "rates": measure.rates(code, answering, names, effort),
        }
        assert measure.trips(code, answering, names, effort) == {}
    figures = measured[0] | {part: {"ours": measured[0][part]["ours"]} | found for part, found in theirs.items()}
    ((_, (head, *goals)), *_) = tables(figures)
    assert head[2:] == ["Inflight", "umqtt.simple", "umqtt.simple2"]
    told = [row[3:] for row in goals if row[3] != "-"]
    assert len(told) == 15 and {(*row,) for row in told} == {("no end within 1 s", "OSError: no thanks")}
    ((_, before), *_) = tables(measured[0])
    assert [row[2] for row in goals] == [row[2] for row in before[1:]]
    assert benchmark.plots(figures)


@pytest.mark.long("INFLIGHT_TOOLS")
def test_plots_are_pictures(measured):
    for name in ("throughput.svg", "wear.svg"):
        root = ElementTree.parse(measured[2] / name).getroot()
        assert root.tag.endswith("svg")
        assert len(root.findall("{*}path")) >= 4


@pytest.mark.long("INFLIGHT_TOOLS")
def test_lines_of_a_plot_stand_where_their_points_are():
    root = ElementTree.fromstring(svg("t", "x", "y", {"a & b": [[0, 1], [1, 10], [10, 100]]}))
    points = root.find("{*}path").get("d").removeprefix("M").split(" ")
    across, up = zip(*(map(float, point.split(",")) for point in points), strict=True)
    assert across[1] - across[0] == pytest.approx(across[2] - across[1])
    assert up[0] > up[1] > up[2]
    assert "a & b" in [text.text for text in root.findall("{*}text")]


@pytest.mark.long("INFLIGHT_TOOLS")
def test_a_folder_without_clients_is_told(tmp_path):
    done = CliRunner().invoke(benchmark.app, ["--peers", str(tmp_path)])
    assert done.exit_code == 1
    assert "looked for umqtt/simple.py, umqtt/simple2.py, mqtt_as/__init__.py" in done.output.replace("\n", " ")


@pytest.mark.long("INFLIGHT_TOOLS")
def test_checkouts_are_found_wherever_they_lie(tmp_path):
    for path in ("lib/micropython/umqtt.simple/umqtt/simple.py", "b/src/umqtt/simple2.py", "c/mqtt_as.py"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    found = peers.find(tmp_path)
    assert {driver: list(files) for driver, files in found.items()} == {
        "umqtt_simple": ["umqtt/simple"],
        "umqtt_simple2": ["umqtt/simple2"],
        "mqtt_as_client": ["mqtt_as"],
    }
    (tmp_path / "mqtt_as").mkdir()
    for name, text in (("__init__", "from .properties import Properties"), ("properties", ""), ("example", "")):
        (tmp_path / f"mqtt_as/{name}.py").write_text(text)
    assert list(peers.find(tmp_path)["mqtt_as_client"]) == ["mqtt_as/__init__", "mqtt_as/properties"]


@pytest.mark.long("INFLIGHT_TOOLS")
def test_a_script_that_fails_says_why(tmp_path):
    code = Code(tmp_path, _available(benchmark.best_runtime().name))
    with pytest.raises(Failed, match="(?s)recovery.*MemoryError"):
        code.run("recovery", tmp_path / "flash", 16, 10, heap=20_000)
    with pytest.raises(Failed, match="recovery .*: no end within 0 s"):
        code.run("recovery", tmp_path / "flash", 16, 10, timeout=0)
