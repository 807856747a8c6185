"""What Prometheus gets from `collect` and `tables`, and that alert rules and dashboard ask for nothing else."""

import importlib.util
import json
import re
import socket
import threading
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from inflight_tools.fleet import commands, monitoring
from inflight_tools.fleet.collect.counters import Counters
from inflight_tools.fleet.monitoring.address import address
from inflight_tools.fleet.monitoring.metrics import (
    CollectorMetrics,
    FleetMetrics,
    TablesMetrics,
    TransferMetrics,
    serve,
)
from inflight_tools.fleet.pipeline import together
from inflight_tools.fleet.spark.command import follow
from inflight_tools.fleet.transfer.loop import Figures
from tools.setup.common import CHECKOUT

FOLDER = Path(monitoring.__file__).parent
RULES = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text(encoding="utf-8"))
ALERTS = {rule["alert"]: rule["expr"] for group in RULES["groups"] for rule in group["rules"]}
TARGETS = [(panel["title"], target["expr"]) for panel in DASHBOARD["panels"] for target in panel["targets"]]
EXPRESSIONS = [*ALERTS.values(), *(expression for _, expression in TARGETS)]


def counted():
    counters = Counters("c")
    counters.received(10, True, False)
    counters.received(20, False, True)
    counters.acknowledged([time.monotonic() - 2, time.monotonic() - 1])
    return counters


def collecting(tmp_path, counters=None):
    collector = SimpleNamespace(counters=counters or counted(), connected=True, files=3)
    return CollectorMetrics(collector, "c", tmp_path)


def scrape(*sources):
    """{name: value} of what a server at a free port says."""
    server, host, port = serve("0", *sources)
    try:
        assert host == "127.0.0.1"
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=240) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            return {sample.name: sample.value for family in families for sample in family.samples}
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The names of all metrics."""
    ways = [TransferMetrics(Figures(), name) for name in ("upload", "download")]
    group = dict.fromkeys(("devices", "silent", "nearly_full", "lost", "dead_letters"), 0) | {"group": "attics"}
    facts = {"groups": [group], "gave_up": {"dropped": 0}, "devices": [{"group": "attics", "holds_s": 60.0}]}
    fleet = FleetMetrics(facts | {"made": time.time()}, 0)
    return {*scrape(collecting(tmp_path_factory.mktemp("landing"))), *scrape(TablesMetrics(), fleet, *ways)}


def test_the_collector_tells_what_it_received_and_acknowledged(tmp_path):
    found = {name.removeprefix("inflight_collector_"): value for name, value in scrape(collecting(tmp_path)).items()}
    expected = {"messages_total": 2, "payload_bytes_total": 30, "acknowledged_messages_total": 2, "batches_total": 1}
    expected |= {"duplicates_total": 1, "truncated_total": 1, "landing_files_total": 3, "connected": 1}
    assert {name: found[name] for name in expected} == expected
    assert found["lag_seconds_total"] >= 3 and found["disk_free_bytes"] > 0
    assert found["acknowledged_timestamp_seconds"] > 1_700_000_000


def test_a_report_of_the_collector_does_not_start_its_metrics_again(tmp_path):
    counters = counted()
    source = collecting(tmp_path, counters)
    before = scrape(source)
    counters.report(3, True)
    after = scrape(source)
    assert {name: after[name] for name in before if "disk" not in name} == {
        name: value for name, value in before.items() if "disk" not in name
    }


def test_the_stream_tells_of_its_batches_and_of_unread_files():
    progress = {"batchId": 4, "numInputRows": 50, "durationMs": {"triggerExecution": 2500}}
    query = SimpleNamespace(isActive=False, recentProgress=[progress], exception=lambda: None)
    unread = {"a.ndjson": (100, time.time()), "b.ndjson": (50, 0)}
    watch = SimpleNamespace(stuck=lambda: 0, unread=lambda: unread)
    metrics = TablesMetrics()
    follow(query, watch, threading.Event(), False, metrics)
    found = {name.removeprefix("inflight_tables_"): value for name, value in scrape(metrics).items()}
    assert found.pop("last_batch_timestamp_seconds") > 1_700_000_000
    expected = {"batches_total": 1, "deliveries_total": 50, "batch_seconds_total": 2.5, "last_batch_seconds": 2.5}
    assert found == expected | {"unread_files": 2, "unread_bytes": 150, "stale_files": 1}


def test_an_upload_tells_what_it_moved_and_what_waits():
    figures = Figures()
    figures.moved(100)
    figures.errors, figures.waiting = 2, {"a": 30, "b": 12}
    found = {
        name.removeprefix("inflight_upload_"): value
        for name, value in scrape(TransferMetrics(figures, "upload")).items()
    }
    assert found.pop("moved_timestamp_seconds") > 1_700_000_000
    expected = {"files_total": 1, "bytes_total": 100, "errors_total": 2}
    assert found == expected | {"waiting_files": 2, "waiting_bytes": 42}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_alerts_and_dashboard_ask_for_metrics_that_exist(expression, exported):
    asked = set(re.findall(r"\binflight_\w+|\bup\b", expression))
    assert asked and asked <= exported | {"up"}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_alerts_and_dashboard_are_promql(expression):
    if not importlib.util.find_spec("promql_parser"):
        pytest.skip("promql-parser is not installed: run `make setup-pipeline`")
    import promql_parser

    promql_parser.parse(expression)


def test_each_alert_says_what_is_wrong():
    for group in RULES["groups"]:
        for rule in group["rules"]:
            assert rule["annotations"]["summary"].endswith((".", "?")) and rule["labels"]["severity"]
    assert len(ALERTS) == sum(len(group["rules"]) for group in RULES["groups"])


def test_the_documentation_names_every_metric_and_alert(exported):
    page = (CHECKOUT / "docs/monitoring.md").read_text()
    names = [re.sub("^inflight_(collector|tables|upload|download|fleet)_", "", name) for name in exported]
    assert [name for name in (*names, *ALERTS) if f"`{name}`" not in page] == []


def test_each_metric_of_the_fleet_has_a_panel(exported):
    shown = " ".join(expression for _, expression in TARGETS)
    assert [name for name in exported if name.startswith("inflight_fleet_") and name not in shown] == []


def test_how_long_journals_hold_by_group():
    """The least of each; those of unlisted groups together; nothing of a group of which it is unknown."""
    told = (("attics", 60.0), ("attics", 30.0), ("roofs", None), (None, 7.0), ("x" * 70, 90.0), ("barns", 80.0))
    groups = [{"group": name} for name in ("attics", "roofs", "unknown", "others")]
    found = FleetMetrics({"groups": groups, "devices": [{"group": g, "holds_s": s} for g, s in told]}, 0).holds()
    assert found == {"attics": 30.0, "unknown": 7.0, "others": 80.0}


def test_the_panels_of_the_dashboard_do_not_overlap():
    cells = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        covered = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24 and not covered & cells
        cells |= covered
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [("9464", ("127.0.0.1", 9464)), ("0.0.0.0:9464", ("0.0.0.0", 9464)), ("[::1]:9464", ("::1", 9464))],
)
def test_metrics_are_served_on_loopback_unless_a_host_is_given(text, expected):
    assert address(text) == expected


@pytest.mark.parametrize("text", ["nonsense", "127.0.0.1", "70000", "host:"])
def test_a_wrong_place_for_metrics_ends_the_collector(text, tmp_path):
    words = ["collect", "--broker", "127.0.0.1", "--landing", str(tmp_path / "landing"), "--metrics", text]
    done = CliRunner().invoke(commands.app, words)
    assert done.exit_code == 1 and "a port, or host:port" in done.stderr


def test_a_port_that_is_taken_ends_the_collector(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        words = ["collect", "--broker", "127.0.0.1", "--landing", str(tmp_path / "landing"), "--metrics", port]
        done = CliRunner().invoke(commands.app, words)
    assert done.exit_code == 1 and f"--metrics {port}: " in done.stderr


@pytest.fixture
def no_spark(monkeypatch):
    """Lets no command start Spark."""

    def start(*_):
        pytest.fail("Spark was started")

    monkeypatch.setattr("inflight_tools.fleet.spark.session.session", start)


@pytest.mark.parametrize("text", ["nonsense", "70000"])
def test_tables_refuses_a_wrong_place_for_metrics_before_spark_starts(text, tmp_path, no_spark):
    done = CliRunner().invoke(commands.app, ["tables", "--data", str(tmp_path), "--metrics", text])
    assert done.exit_code == 2 and "a port, or host:port" in done.stderr


def test_tables_refuses_a_port_that_is_taken_before_spark_starts(tmp_path, no_spark):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = CliRunner().invoke(commands.app, ["tables", "--data", str(tmp_path), "--metrics", port])
    assert done.exit_code == 1 and f"--metrics {port}: " in done.stderr


@pytest.mark.parametrize(
    ("text", "collector", "of_tables"),
    [
        ("9464", "127.0.0.1:9464", "127.0.0.1:9465"),
        ("0.0.0.0:9464", "0.0.0.0:9464", "0.0.0.0:9465"),
        ("[::1]:9464", "::1:9464", "::1:9465"),
        ("0", "127.0.0.1:0", "127.0.0.1:0"),  # any free ports
    ],
)
def test_pipeline_gives_its_options_to_both_commands(text, collector, of_tables, tmp_path, monkeypatch):
    started = []

    class Child:
        def __init__(self, words, **_):
            started.append(words)

        def poll(self):
            return 0

        wait = terminate = poll

    monkeypatch.setattr(together.subprocess, "Popen", Child)
    words = ["pipeline", "--broker", "localhost", "--data", str(tmp_path), "--metrics", text]
    words += ["--age", "2", "--every", "3"]
    done = CliRunner().invoke(commands.app, words)
    assert done.exit_code == 0
    collect, tables = started
    assert collect[collect.index("--age") + 1] == "2.0" and tables[tables.index("--every") + 1] == "3.0"
    assert [words[words.index("--metrics") + 1] for words in started] == [collector, of_tables]


def test_pipeline_starts_nothing_with_a_wrong_place_for_metrics(tmp_path, monkeypatch):
    monkeypatch.setattr(together.subprocess, "Popen", lambda *_, **__: pytest.fail("a program was started"))
    words = ["pipeline", "--broker", "localhost", "--data", str(tmp_path), "--metrics", "nonsense"]
    done = CliRunner().invoke(commands.app, words)
    assert done.exit_code == 2 and "a port, or host:port" in done.stderr
