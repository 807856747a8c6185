"""What Prometheus gets from `collect` and `tables`, and that alert rules and dashboard ask for nothing else."""

import json
import re
import socket
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from host_tests.tools.fleet.report.made_facts import empty
from inflight_tools.fleet import commands, monitoring
from inflight_tools.fleet.collect.counters import Counters
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
from tools.runtimes import program
from tools.setup.common import CHECKOUT

FOLDER = Path(monitoring.__file__).parent
PAGE = (CHECKOUT / "docs/pipeline/monitoring.md").read_text()
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
    group = dict.fromkeys(("devices", "silent", "nearly_full", "lost", "dead_letters"), 0)
    facts = empty() | {"groups": [group | {"group": "attics", "holds_s": 60.0}], "gave_up": {"dropped": 0}}
    readings = [{"device": "attic", "name": "temperature", "unit": "Cel", "value": 9.0}]
    fleet = FleetMetrics(facts | {"made": time.time()}, 0, readings)
    return {*scrape(collecting(tmp_path_factory.mktemp("landing"))), *scrape(TablesMetrics(), fleet, *ways)}


def test_the_collector_tells_what_it_received_and_acknowledged(tmp_path):
    """Since its start: a report of its own begins nothing anew."""
    counters = counted()
    source = collecting(tmp_path, counters)
    before = scrape(source)
    counters.report(3, True)
    after = scrape(source)
    assert {name: after[name] for name in before if "disk" not in name}.items() <= before.items()
    found = {name.removeprefix("inflight_collector_"): value for name, value in after.items()}
    expected = {"messages_total": 2, "payload_bytes_total": 30, "acknowledged_messages_total": 2, "batches_total": 1}
    expected |= {"duplicates_total": 1, "truncated_total": 1, "landing_files_total": 3, "connected": 1}
    assert {name: found[name] for name in expected} == expected
    assert found["lag_seconds_total"] >= 3 and found["disk_free_bytes"] > 0
    assert found["acknowledged_timestamp_seconds"] > 1_700_000_000


def test_the_stream_tells_of_its_batches_and_of_unread_files():
    progress = {"batchId": 4, "numInputRows": 50, "durationMs": {"triggerExecution": 2500}}
    query = SimpleNamespace(isActive=False, recentProgress=[progress], exception=lambda: None)
    unread = {"a.ndjson": (100, time.time()), "b.ndjson": (50, 0)}
    watch = SimpleNamespace(stuck=list, unread=lambda: unread)
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
    scraped = scrape(TransferMetrics(figures, "upload"))
    found = {name.removeprefix("inflight_upload_"): value for name, value in scraped.items()}
    assert found.pop("moved_timestamp_seconds") > 1_700_000_000
    expected = {"files_total": 1, "bytes_total": 100, "errors_total": 2}
    assert found == expected | {"waiting_files": 2, "waiting_bytes": 42}


def test_alerts_and_dashboard_ask_for_metrics_that_exist(exported):
    for expression in EXPRESSIONS:
        asked = set(re.findall(r"\binflight_\w+|\bup\b", expression))
        assert asked and asked <= exported | {"up"}, expression


JUDGED = 'inflight_fleet_judged{figure="%s"}'
OF_GROUP = 'inflight_fleet_%s{group="%s"}'
LOST = "At least %d messages were lost within an hour: the report says which."
GAVE_UP = "At least %d of %s within an hour: messages that devices gave up, or that have no place."
FRIDGE = 'inflight_reading{device="fridge-3",name="temperature",unit="Cel"}'
OWN = re.search(r"^```yaml\n(groups:.*?)```", PAGE, re.M | re.S)[1]  # the rule of a user
# alert: (values of series, a minute each; minute; what is said then, None: nothing)
HISTORIES = [
    ("MessagesLost", {JUDGED % "lost": "0x120 3x60", OF_GROUP % ("lost_messages", "new"): "_x120 3x60"}, 130, LOST % 3),
    ("MessagesLost", {JUDGED % "lost": "1234567x60"}, 10, LOST % 1_234_567),  # nothing was asked before
    ("MessagesLost", {JUDGED % "lost": "3x120"}, 100, None),
    ("MessagesLost", {JUDGED % "lost": "3x60 _x30 3x90"}, 150, None),  # an hour ago nobody asked
    ("MessagesLost", {JUDGED % "lost": "3x180"} | {OF_GROUP % ("lost_messages", name): values for name, values in (
        ("a", "3x120 0x60"), ("b", "0x120 3x60"))}, 130, None),
    ("DeadLetters", {OF_GROUP % ("dead_letters", "a"): "3x120 _x60", OF_GROUP % ("dead_letters", "b"): "_x120 3x60"},
        130, None),
    ("DeadLetters", {OF_GROUP % ("dead_letters", "a"): "3x180", OF_GROUP % ("dead_letters", "b"): "_x120 2x60"},
        130, "At least 2 messages could not be read within an hour."),
    ("NotAllDelivered", {JUDGED % "given_up": "1x120 6x60"}, 130, GAVE_UP % (5, "given_up")),
    ("NotAllDelivered", {JUDGED % "conflicts": "0x120 1x60"}, 130, GAVE_UP % (1, "conflicts")),
    ("FiguresWrong", {JUDGED % "damaged": "0x60 2x60"}, 65, None),
    ("FiguresWrong", {JUDGED % "damaged": "0x60 2x60"}, 75,
        "2 of damaged: tables that lack rows, or devices whose numbers cannot be."),
    ("FiguresOld", {"inflight_fleet_timestamp_seconds": "0+60x30 1800x60"}, 60, None),
    ("FiguresOld", {"inflight_fleet_timestamp_seconds": "0+60x30 1800x60"}, 67,
        "The figures of the fleet are 37 minutes old: nobody looks for losses. Start the console again."),
    ("FridgeWarm", {FRIDGE: "4.4x60 9.6x60"}, 65, None),
    ("FridgeWarm", {FRIDGE: "4.4x60 9.6x60"}, 75, "fridge-3: 9.6 °C"),
    ("FridgeWarm", {FRIDGE: "9.6x60 _x60"}, 70, None),
]  # fmt: skip


def test_alerts_are_raised_for_what_is_new(tmp_path):
    """As Prometheus's own tool plays histories."""
    try:
        tool = program("promtool")
    except RuntimeError as e:
        pytest.skip(str(e))
    groups = [*RULES["groups"], *yaml.safe_load(OWN)["groups"]]
    rules = {rule["alert"].removeprefix("Inflight"): rule for group in groups for rule in group["rules"]}
    tests = []
    for name, series, minute, said in HISTORIES:
        alert = rules[name]["alert"]
        labels = rules[name]["labels"] | dict(re.findall('(figure|device|name|unit)="(.*?)"', "".join(series)))
        told = [{"exp_labels": labels, "exp_annotations": {"summary": said}}] if said else []
        rule = {"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": told}
        known = [{"series": one, "values": values} for one, values in series.items()]
        tests.append({"interval": "1m", "input_series": known, "alert_rule_test": [rule]})
    shown = [{"record": "shown", "expr": expression} for _, expression in TARGETS]  # the dashboard is PromQL, too
    (tmp_path / "shown.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": shown}]}))
    (tmp_path / "own.yml").write_text(OWN)
    path, files = tmp_path / "histories.yml", [str(FOLDER / "alerts.yml"), "shown.yml", "own.yml"]
    path.write_text(yaml.safe_dump({"rule_files": files, "tests": tests}))
    done = subprocess.run([*tool, "test", "rules", str(path)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_dashboard_and_documentation_have_all(exported):
    rules = [rule for group in RULES["groups"] for rule in group["rules"]]
    assert all(one["annotations"]["summary"].endswith((".", "?")) and one["labels"]["severity"] for one in rules)
    assert len(ALERTS) == len(rules)
    shown = " ".join(expression for _, expression in TARGETS)
    assert [name for name in exported if name.startswith("inflight_fleet_") and name not in shown] == []
    names = [re.sub("^inflight_(collector|tables|upload|download|fleet)_", "", name) for name in exported]
    assert [name for name in (*names, *ALERTS) if f"`{name}`" not in PAGE] == []
    cells = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        covered = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24 and not covered & cells  # no two panels overlap
        cells |= covered
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.parametrize("text", ["nonsense", "127.0.0.1", "70000", "host:", "taken"])
@pytest.mark.parametrize("command", ["collect", "tables", "pipeline"])
def test_a_wrong_place_for_metrics_ends_a_command(command, text, tmp_path, monkeypatch):
    """Before anything that takes long is started."""
    monkeypatch.setattr("inflight_tools.fleet.spark.session.session", lambda *_: pytest.fail("Spark was started"))
    monkeypatch.setattr(together.subprocess, "Popen", lambda *_, **__: pytest.fail("a program was started"))
    words = [command, *(() if command == "tables" else ("--broker", "127.0.0.1"))]
    words += ["--landing", str(tmp_path / "landing")] if command == "collect" else ["--data", str(tmp_path)]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        if text == "taken":
            if command == "pipeline":
                pytest.skip("its programs find that")
            text, said = str(taken.getsockname()[1]), "--metrics "
        else:
            said = "a port, or host:port"
        done = CliRunner().invoke(commands.app, [*words, "--metrics", text])
    assert done.exit_code == (1 if said == "--metrics " else 2) and said in done.stderr
