"""Where a missing number is, by the report and by `where`: in a journal, on the way, lost, or given up by its device.
Which devices are silent."""

import functools
import json
from types import SimpleNamespace

import paho.mqtt.client as paho
import pytest

from host_tests.thorough import more
from host_tests.tools.command import fleet as command
from host_tests.tools.fleet.collect.collecting import Landing, Program, publish, until
from host_tests.tools.fleet.tables import AT
from host_tests.tools.fleet.without_spark import delivery as message
from host_tests.tools.fleet.without_spark import health, telemetry
from inflight_tools.fleet import delta
from inflight_tools.fleet.monitoring.alarms import Check
from inflight_tools.fleet.query import views
from inflight_tools.fleet.query.database import Database
from inflight_tools.fleet.query.facts import gather
from inflight_tools.fleet.report.verdict import verdict
from inflight_tools.fleet.where.answer import answer
from inflight_tools.fleet.where.command import ELSEWHERE
from tools.peers import mosquitto

NOW = 1_760_000_000_000
S = 1000
HOUR = 3600 * S
PLACES = ("delivered", "lost", "given_up", "on_way", "on_device", "guessed")


def status(device, seq, at, oldest=None, epoch=7, by="c", **properties):
    fields = {"state": "online", "seq": seq, "epoch": epoch, "oldest": seq if oldest is None else oldest}
    return message(f"{device}/status", fields, at, by=by, **({"properties": properties} if properties else {}))


def marker(by, sent, received=None):
    return message(f"{by}/collector", {"sent": sent}, received or sent, by=by)


@pytest.fixture(scope="module")
def result(common_fleet):
    """A fleet whose devices miss numbers. The collector's last marker that came back is of NOW + 60 s. So all that the
    broker had then has landed."""
    fleet = common_fleet
    # Number 1 is missing, and acknowledged before the marker; 3 after it; 5 is not acknowledged.
    told = [("all", 0, 0, 0), ("all", 2, 30, 2), ("all", 4, 90, 4), ("all", 6, 95, 5)]
    fleet.land(*[status(device, seq, NOW + s * S, oldest) for device, seq, s, oldest in told])
    fleet.land(*[telemetry("silent", seq, at=NOW + s * S) for seq, s in ((0, 0), (2, 30), (4, 90))])
    gave_up = {"accepted": 9, "dropped": 2, "expired": 1}  # on the device: it counts among the dropped ones
    fleet.land(status("full", 0, NOW), health("full", 5, counters=gave_up, oldest=5, at=NOW + 20 * S))
    fleet.land(status("expires", 0, NOW), status("expires", 2, NOW + 30 * S, expiry=60))
    damage = {"live": 0, "damaged": 1, "skipped": 2}
    fleet.land(status("damaged", 0, NOW), health("damaged", 3, journal=damage, oldest=3, at=NOW + 20 * S))
    # The journal counts damage for good: restarts tell the same again. The client counts it from its start on.
    spoilt = {"accepted": 1, "dropped": 1, "damaged": 1}
    first = health("restarts", 2, journal={"live": 0, "damaged": 1}, counters=spoilt, oldest=2, at=NOW + 10 * S)
    restarted = {"journal": {"live": 0, "damaged": 1}, "counters": {"accepted": 1}}
    again = [health("restarts", seq, oldest=seq, at=NOW + seq * S, **restarted) for seq in (20, 24)]
    fleet.land(status("restarts", 0, NOW), first, *again)
    # What is dropped counts from a start on: the counters of both are added up.
    lives = [(3, 20, {"accepted": 4, "dropped": 2}, 60), (5, 30, {"accepted": 1, "dropped": 1}, 1)]
    told = [health("lives", n, up, counters=c, oldest=n, at=NOW + s * S) for n, s, c, up in lives]
    fleet.land(status("lives", 0, NOW), *told)
    fleet.land(status("new", 0, NOW, 0), status("new", 3, NOW, 1), status("new", 0, NOW + 30 * S, epoch=8))
    fleet.land(*[telemetry("hourly", n, at=NOW + (n - 3) * HOUR) for n in range(4)])
    fleet.land(message("sleeps/status", {"state": "asleep", "next_s": 7200, "seq": 0, "epoch": 7}, NOW))
    fleet.land(message("odd/status", {"state": "online", "seq": 0, "epoch": 7, "oldest": 1}, NOW))
    fleet.land(marker("c", NOW + 60 * S, NOW + 61 * S))
    fleet.run()
    return SimpleNamespace(fleet=fleet, facts=facts(fleet))


def facts(fleet, **how):
    found = fleet.facts(now=(NOW + 120 * S) / 1000, grace_s=60, **how)
    return found | {"by_device": {one["device"]: one for one in found["devices"]}}


def places(found, name):
    return {place: found["by_device"][name][place] for place in PLACES if found["by_device"][name][place]}


# Of each device: its figures in the report, why it gave up messages, and what `where` tells of numbers: place, proved.
HISTORIES = {
    "all": (
        {"delivered": 4, "lost": 1, "on_way": 1, "on_device": 1},
        {},
        dict.fromkeys((0, 2, 4, 6), ("delivered", True))
        | {1: ("lost", True), 3: ("way", True), 5: ("journal", True), 7: ("after", False)},
    ),
    "full": ({"delivered": 2, "given_up": 2, "lost": 2}, {"dropped": 2}, {1: ("lost-or-given-up", True)}),
    "damaged": ({"delivered": 2, "given_up": 2}, {"damaged": 1, "skipped": 2}, {1: ("given-up", True)}),
    "restarts": ({"delivered": 4, "given_up": 1, "lost": 20}, {"damaged": 1}, {1: ("lost-or-given-up", True)}),
    "lives": ({"delivered": 3, "given_up": 3}, {"dropped": 3}, {4: ("given-up", True)}),
    # Of the newest journal, unless another one is asked for.
    "new": ({"delivered": 3, "given_up": 2}, {"erased": 2}, {0: ("delivered", True), (2, 7): ("erased", True)}),
    # By age only: its device tells nothing.
    "silent": ({"delivered": 3, "lost": 1, "on_way": 1, "guessed": 1}, {}, {1: ("lost", False), 3: ("way", False)}),
    "expires": ({"delivered": 2, "lost": 1}, {}, {1: ("lost", True)}),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_each_missing_number_has_its_place(result, name):
    """The report counts it there, and `where` tells it. What a device gave up is not lost behind the broker."""
    figures, gave_up, wheres = HISTORIES[name]
    assert places(result.facts, name) == figures
    assert {why: n for why, n in result.facts["by_device"][name]["gave_up"].items() if n} == gave_up
    with Database(result.fleet.root) as database:
        views.judge(database, NOW / 1000 + 120, 60)
        for number, told in wheres.items():
            number, epoch = number if isinstance(number, tuple) else (number, None)
            found = answer(database, name, number, result.fleet.landing, result.fleet.root, "inflight", epoch)
            assert (found["place"], found["proved"]) == told, number


def test_the_command_where_tells_more_of_what_is_missing(result):
    told = functools.partial(command, result.fleet.root.parent, "where", "--landing", result.fleet.root)
    status, text, _ = told("new", 0)
    assert status == 0 and "epoch 8; the device had others: 7 (--epoch)" in text
    status, text, _ = told("expires", 1)
    assert status == ELSEWHERE and "at most 60 s were left on arrival" in text
    assert "expiry" not in told("all", 1)[1]


# Of a device: its figures, those that are not 0. Markers are of each minute since an hour before.
EDGES = {
    "flashed": {"accepted": 2, "delivered": 2, "before": 99},  # its birth message is a retained one
    "between": {"accepted": 2, "delivered": 2, "before": 2},
    "new": {"accepted": 20, "delivered": 10, "lost": 10},
    "moved": {"accepted": 10, "delivered": 10, "before": 10},  # it has been up for two hours
    "waited": {"accepted": 12, "delivered": 2, "lost": 10, "guessed": 10},  # what tells its uptime may have waited
    "once": {"accepted": 11, "delivered": 1, "lost": 10, "guessed": 10},  # its only message may have waited
    "silent-on-start": {"accepted": 10, "delivered": 10, "before": 10},
    "twins": {"accepted": 31, "delivered": 31, "before": 10, "conflicts": 30},
    "vanished": {"accepted": 5, "delivered": 5},
    "leaves": {"accepted": 6, "delivered": 6},
    "gives": {"accepted": 1003, "delivered": 3, "given_up": 1000},
    "claims": {"accepted": 5, "delivered": 2, "lost": 3},
    "anew": {"accepted": 12, "delivered": 9, "lost": 3},  # what it gives up of one journal is none of the other's
}


@pytest.mark.parametrize("without", [(), *more(("live",))])
def test_what_a_collector_could_have_received(tables, without):
    """`without`: a column of the ledger that tables of earlier versions lack."""
    for s in range(-3600, 200, 60):
        tables.marker(s, s + 1)
    tables.add("flashed", 0, -3599, retain=True)
    tables.add("flashed", 100, 10, oldest=100)
    tables.add("between", 1, -3599, retain=True)
    tables.add("between", 3, 10, oldest=3)
    for device, up in (("new", 60), ("moved", 7200), ("silent-on-start", None)):
        for n in range(10, 20):
            if up and n == 15:
                tables.health(device, n, n, {"accepted": n}, up=up, oldest=n)
            else:
                tables.add(device, n, n, oldest=n)
    tables.add("waited", 10, -3400, oldest=10)
    tables.health("waited", 11, 10, {"accepted": 11}, up=300, oldest=11)
    tables.health("once", 10, 20, {"accepted": 10}, up=20, oldest=10)
    for n in range(10, 40):
        tables.add("twins", n, n, oldest=n, digest=1)
        tables.add("twins", n, n, first=False, digest=2)
    tables.health("twins", 40, 40, {"accepted": 40}, up=45, oldest=40)  # of one of both boards
    for device in ("vanished", "leaves"):
        for n in range(5):
            tables.status(device, n, n, oldest=n, state="online")
    tables.add("vanished", None, 30, epoch=None, state="offline", retain=False, payload=b"{}")
    tables.status("leaves", 5, 30, oldest=5, state="offline")
    tables.add("gives", 0, 0, oldest=0)
    for n, dropped in ((1, 0), (1002, 1000)):
        tables.health("gives", n, n % 100, {"accepted": n, "dropped": dropped}, up=n, oldest=n)
    tables.add("claims", 0, 0, oldest=0)
    tables.health("claims", 4, 20, {"accepted": 4, "dropped": 1 << 31}, oldest=4)
    for n in (0, 4):
        tables.add("anew", n, n, oldest=n)
    for n in range(6):
        tables.add("anew", n, 10 + n, epoch=8, oldest=n)
    tables.health("anew", 6, 20, {"accepted": 7, "dropped": 5}, epoch=8, oldest=6)
    for n, s in ((0, 0), (1, 10), (4_000_000_000, 20)):
        tables.add("huge", n, s)
    tables.write(without)
    found = gather(tables.root, "inflight", now=AT + 300.0)
    names = "accepted delivered lost guessed before given_up conflicts".split()
    figures = {one["device"]: {name: one[name] for name in names if one[name]} for one in found["devices"]}
    assert {name: figures[name] for name in EDGES} == EDGES
    for name in names:
        assert found["fleet"][name] == sum(one.get(name, 0) for one in EDGES.values()), name
    flags = {one["device"]: one["flags"] for one in found["devices"]}
    assert [one["device"] for one in found["devices"] if one["tail"]] == ["anew", "vanished"]
    assert [name for name in flags if "numbers that cannot be" in flags[name]] == ["huge"]
    judged = {name: n for name, n in found["judgement"].items() if n}
    assert judged.pop("kind") == "bad"
    assert judged == {"impossible": 1, "lost": 36, "given_up": 1000, "conflicts": 30, "tails": 2, "before": 131}
    assert verdict(found).sentence.startswith("36 messages were probably lost: 1,129 messages accepted, 93 delivered, ")
    check = Check(found, dict.fromkeys(("lost", "given_up", "conflicts"), 0))
    assert set(check.alarms) == {"lost", "given_up", "conflicts", "impossible"}
    assert "30 messages without a place" in check.line()
    metrics = pytest.importorskip("inflight_tools.fleet.monitoring.metrics", reason="make setup-pipeline")
    (metric,) = [one for one in metrics.FleetMetrics(found, 0).collect() if one.name == "inflight_fleet_judged"]
    assert {one.labels["figure"]: one.value for one in metric.samples if one.value} == judged
    wheres = {"flashed": (50, "before", False), "new": (3, "lost", True), "once": (3, "lost", False)}
    wheres |= {"anew": (2, "lost", True), "twins": (13, "delivered", True)}
    for device, (number, *told) in wheres.items():
        with Database(tables.root) as database:
            views.judge(database, AT + 300, 60)
            where = answer(database, device, number, tables.root / "landing", tables.root, "inflight", 7)
        assert [where["place"], where["proved"], where["conflicts"]] == [*told, device == "twins"]


def test_a_wrong_oldest_number_proves_nothing_and_is_a_dead_letter(result):
    assert result.facts["by_device"]["odd"]["dead_letters"] == 1


def test_nothing_is_lost_while_landing_files_are_unread(result):
    found = facts(result.fleet, unread={"000099.ndjson": (100, NOW / 1000 + 8 * 86400)})
    assert places(found, "all") == {"delivered": 4, "on_way": 2, "on_device": 1}
    assert places(found, "silent") == {"delivered": 3, "on_way": 2}


def test_silent_devices_come_first(result):
    """A device is silent three times as long as usual: by its own rhythm, or by what it told before it slept."""

    def silent(hours):
        devices = result.fleet.facts(now=(NOW + hours * HOUR) / 1000)["devices"]
        found = {one["device"]: one["silent"] for one in devices if one["silent"]}
        assert list(found) == [one["device"] for one in devices[: len(found)]]
        return found

    two, four = silent(2), silent(4)
    assert not {"hourly", "sleeps"} & set(two) and two["all"] == 2 * 3600 - 95
    assert "hourly" in four and "sleeps" not in four
    assert silent(7)["sleeps"] == 7 * 3600


def test_a_collector_that_is_away_may_still_have_messages(fleet):
    """A member of a group. When it is declared retired, what it had is lost."""
    fleet.land(status("attic", 0, NOW), marker("away", NOW))
    fleet.land(status("attic", 2, NOW + HOUR), marker("c", NOW + 2 * HOUR))
    fleet.run()
    now = (NOW + 3 * HOUR) / 1000
    found = fleet.facts(now=now)
    assert (found["fleet"]["on_way"], found["fleet"]["lost"]) == (1, 0)
    assert [one["by"] for one in found["collectors"]] == ["away", "c"]
    found = fleet.facts(now=now, retired=["away"])
    assert (found["fleet"]["on_way"], found["fleet"]["lost"], found["fleet"]["guessed"]) == (0, 1, 0)


def test_a_gap_whose_deliveries_were_deleted_by_age_is_lost(fleet):
    """`raw` has nothing of the device any more. The ledger tells that number 0 was a retained one."""
    fleet.land(*[telemetry("attic", n, at=NOW, retain=n == 0) for n in (0, 2, 4)])
    fleet.run()
    fleet.forget(NOW / 1000 + 1)
    assert fleet.count("raw") == 0
    found = fleet.facts()["fleet"]
    expected = {"delivered": 3, "lost": 1, "guessed": 1, "before": 1}
    assert {place: found[place] for place in (*PLACES, "before") if found[place]} == expected


@pytest.mark.skipif(bool(mosquitto.unavailable()), reason=mosquitto.unavailable() or "there is one")
def test_a_broker_that_loses_a_message_is_found_out(fleet, tmp_path):
    """Somebody deletes the session of a collector that is away. The broker acknowledges message 1, and forgets it."""
    landing = Landing(fleet.landing)

    def send(seq):
        body = {"state": "online", "seq": seq, "epoch": 7, "oldest": seq}
        publish(broker, json.dumps(body), topic="inflight/attic/status")

    with mosquitto.Mosquitto(tmp_path / "broker") as broker:
        options = "--landing", fleet.landing, "--broker", f"127.0.0.1:{broker.port}", "--age", 0.1, "--marker", 0.1
        collector = Program(*options).connected()
        try:
            send(0)
            until(lambda: any('"seq": 0' in text for text in landing.texts()), "message 0")
            collector.kill()
            other = paho.Client(paho.CallbackAPIVersion.VERSION2, "collector-0", clean_session=True)
            other.on_connect = lambda *_: other.disconnect()
            other.connect("127.0.0.1", broker.port)
            other.loop_forever()
            send(1)
            collector = Program(*options).connected()
            send(2)
            until(lambda: any('"seq": 2' in text for text in landing.texts()), "message 2")
            (last,) = (line["at"] for line in landing.lines if '"seq": 2' in line["text"])
            until(lambda: any(json.loads(text).get("sent", 0) > last for text in landing.texts()), "a later marker")
            assert collector.end() == 0
        finally:
            collector.kill()
    fleet.run()
    found = fleet.facts(grace_s=3600)["fleet"]
    assert {place: found[place] for place in PLACES if found[place]} == {"delivered": 2, "lost": 1}


def test_nothing_is_lost_while_a_batch_is_written(fleet):
    """Of two collectors one has message 1. Its landing file is in the second batch, with the markers of both."""
    fleet.land(marker("a", NOW), marker("b", NOW), *(status("attic", n, NOW + (n + 1) * S, by="a") for n in (0, 2)))
    fleet.run()
    before = facts(fleet)
    assert places(before, "attic") == {"delivered": 2, "on_way": 1}
    fleet.land(*(status("attic", n, NOW + (n + 1) * S, by=by) for n, by in ((1, "b"), (3, "a"))))
    fleet.land(marker("a", NOW + 100 * S), marker("b", NOW + 100 * S))
    fleet.run()
    after = facts(fleet)
    assert places(after, "attic") == {"delivered": 4} and after["batch"] == 1
    max((fleet.root / "ledger/_delta_log").glob("*.json")).unlink()  # the last table that gets a batch
    assert facts(fleet) == before


def test_a_batch_and_a_merge_while_tables_are_opened(fleet, monkeypatch):
    fleet.land(telemetry("attic", 0))
    fleet.run()
    opened, names = delta.opened, []

    def meanwhile(files, name):
        table = opened(files, name)
        names.append(name)
        if names == ["ledger"]:
            fleet.land(telemetry("attic", 1))
            fleet.run()
            fleet.merge()
        return table

    monkeypatch.setattr(delta, "opened", meanwhile)
    found = fleet.facts()
    assert found["fleet"]["delivered"] == found["fleet"]["measurements"] == 2
    assert sum(point["received"] for point in found["timeline"]["points"]) == 2
