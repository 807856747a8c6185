"""`inflight fleet history --home-assistant`, with a scripted Home Assistant."""

import datetime
import json
import threading

import pytest
from deltalake import DeltaTable
from websockets.sync.server import serve

from host_tests.tools.fleet.tables import AT
from inflight_tools.fleet.home_assistant.late_hours import hours
from inflight_tools.fleet.query.database import Database

ENTITY_LIST, METADATA_LIST = "config/entity_registry/list", "recorder/get_statistics_metadata"
HOUR = AT // 3600 * 3600
TOKEN = "a secret token"
TEMPERATURE = {"statistic_id": "sensor.attic", "source": "recorder", "name": None, "has_sum": False}
TEMPERATURE |= {"statistics_unit_of_measurement": "°C", "unit_class": "temperature"}
METER = TEMPERATURE | {"has_sum": True, "unit_class": "energy"}


class Home:
    """Answers as Home Assistant documents it; `asked` are the commands. sums: {hour: [state, sum]} of a meter."""

    def __init__(self, version="2026.11.1", entities=(), metadata=(), fails=None, sums=None):
        self.version, self.entities, self.metadata, self.fails = version, entities, metadata, fails
        self.asked, self.sums = [], sums or {}

    def __call__(self, socket):
        socket.send(json.dumps({"type": "auth_required", "ha_version": self.version}))
        auth = json.loads(socket.recv())
        assert set(auth) == {"type", "access_token"} and auth["type"] == "auth"
        if auth["access_token"] != TOKEN:
            socket.send(json.dumps({"type": "auth_invalid", "message": "Invalid access token"}))
            return
        socket.send(json.dumps({"type": "auth_ok", "ha_version": self.version}))
        for text in socket:
            asked = json.loads(text)
            assert asked.pop("id") == len(self.asked) + 1
            self.asked.append(asked)
            answer = {"id": len(self.asked), "type": "result", "success": asked["type"] != self.fails}
            if not answer["success"]:
                answer["error"] = {"code": "unauthorized", "message": "Unauthorized"}
            else:
                results = {ENTITY_LIST: self.entities, METADATA_LIST: self.metadata}
                answer["result"] = results.get(asked["type"]) or self.meter(asked)
            socket.send(json.dumps({"id": 99, "type": "event", "event": {}}))
            socket.send(json.dumps(answer))

    def meter(self, asked):
        """As its recorder does."""
        if asked["type"] == "recorder/statistics_during_period":
            rows = [{"start": 1000 * hour, "state": state, "sum": total} for hour, (state, total) in self.sums.items()]
            return {asked["statistic_ids"][0]: rows}
        if asked["type"] == "recorder/import_statistics":
            self.sums |= {seconds(row["start"]): [row["state"], row["sum"]] for row in asked["stats"] if "sum" in row}
        elif asked["type"] == "recorder/adjust_sum_statistics":
            for hour in self.sums:
                self.sums[hour][1] += asked["adjustment"] * (hour >= seconds(asked["start_time"]))
        return None

    @property
    def imports(self):
        return [asked for asked in self.asked if asked["type"] == "recorder/import_statistics"]


def seconds(text):
    return datetime.datetime.fromisoformat(text).timestamp()


def entity(entity_id, unique_id, platform="mqtt"):
    return {"entity_id": entity_id, "unique_id": unique_id, "platform": platform}


@pytest.fixture
def history(run, tmp_path):
    """history(home, ...) runs the command; returns (exit status, standard output, standard error)."""
    (tmp_path / "token").write_text(TOKEN + "\n")

    def ask(home, *words, url=None, plain=("--plain-http",)):
        with serve(home, "127.0.0.1", 0) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            place = url or f"http://127.0.0.1:{server.socket.getsockname()[1]}/"
            command = "history", "--home-assistant", place, "--token-file", tmp_path / "token"
            status, *told = run(*command, *plain, *words)
            server.shutdown()
            thread.join()
        assert not any(TOKEN in text for text in told)
        return status, *told

    return ask


def start(hour):
    return datetime.datetime.fromtimestamp(HOUR + 3600 * hour, datetime.timezone.utc).isoformat()


def fill(tables):
    """Of attic: an hour that arrived late in part, one that did not, a late one; of others single hours."""
    shift = HOUR - AT
    read = (0, 20.0, None), (1800, 22.0, 9000), (3600, 30.0, 3700), (7200, 19.0, 9000), (7300, 18.0, 9000)
    for k, (s, value, received) in enumerate(read):
        late = None if received is None else shift + received
        tables.measure("attic", k, shift + s, received=late, name="temperature", unit="Cel", value=value)
    tables.measure("attic", 9, shift, received=shift + 9000, name="box.humidity", unit="%RH", value=50.0)
    tables.measure("cellar", 0, shift, received=shift + 9000, name="temperature", unit="Cel", value=10.0)
    tables.add("attic", 10)
    tables.write()


ENTITIES = (
    entity("sensor.attic", "attic-temperature"),
    entity("sensor.other", "attic-temperature", "zha"),
    entity("sensor.humid", "attic-box_2ehumidity"),
)


def test_late_hours_are_imported_at_their_true_time(tables, history):
    """With all of their readings; hours in time are not, nor what Home Assistant does not know."""
    fill(tables)
    home = Home(entities=ENTITIES, metadata=[TEMPERATURE])
    status, out, error = history(home, "--json")
    assert status == 0, error
    assert [asked["type"] for asked in home.asked[:2]] == [ENTITY_LIST, METADATA_LIST]
    assert home.asked[1]["statistic_ids"] == ["sensor.attic", "sensor.humid"]
    metadata = {"statistic_id": "sensor.attic", "source": "recorder", "name": None, "has_sum": False}
    metadata |= {"unit_of_measurement": "°C", "mean_type": 1, "unit_class": "temperature"}
    stats = [
        {"start": start(0), "mean": 21.0, "min": 20.0, "max": 22.0},
        {"start": start(2), "mean": 18.5, "min": 18.0, "max": 19.0},
    ]
    assert home.imports == [{"type": "recorder/import_statistics", "metadata": metadata, "stats": stats}]
    left = {"attic-box_2ehumidity": "sensor.humid has no statistics"}
    left["cellar-temperature"] = "Home Assistant has no such entity"
    assert json.loads(out) == {"hours": {"sensor.attic": 2}, "left_out": left}


def test_an_hour_is_whole(tables, history):
    """Also what arrived before that time, and what `inflight fleet compact --keep-measurements` has deleted."""
    fill(tables)
    since = datetime.datetime.fromtimestamp(HOUR + 8000, datetime.timezone.utc).isoformat()

    def means(*words):
        home = Home(entities=ENTITIES[:1], metadata=[TEMPERATURE])
        assert history(home, *words)[0] == 0
        return [row["mean"] for asked in home.imports for row in asked["stats"]]

    assert means("--since", since) == [21.0, 18.5] and means("--until", since) == []
    table = DeltaTable(tables.root / "measurements")
    table.delete(f"received < '{start(1).replace('T', ' ')}'")
    assert len(table.to_pandas()) == 6  # of seven
    assert means() == [21.0, 18.5]


OUTAGE = range(6)


@pytest.mark.parametrize(("shown", "late", "theirs", "first"), [
    (range(10, 27, 2), OUTAGE, {-1: (10, 5), 6: (24, 19), 7: (26, 21)}, 7),
    (range(10, 27, 2), OUTAGE, {-1: (10, 5), 0: (11, 6), 6: (24, 19), 7: (26, 21)}, 7),  # half an hour was in time
    ((10, 12, 14, 16, 2, 4, 6, 8, 10), OUTAGE, {-1: (10, 5), 6: (8, 13), 7: (10, 15)}, 7),  # at 0 again meanwhile
    ((10, 12, 2, 4, 6, 8, 10, 12, 14), (0, 1, 4, 5),
        {-1: (10, 5), 2: (4, 9), 3: (6, 11), 6: (12, 17), 7: (14, 19)}, 7),  # and another outage later
    (range(10, 27, 2), OUTAGE, {6: (24, 0), 7: (26, 2)}, 1),  # it is new there
])  # fmt: skip
@pytest.mark.parametrize(("unit", "one"), [("kWh", 1), ("Wh", 1000)])
def test_a_meter_has_counted_at_its_true_time(tables, history, shown, late, theirs, first, unit, one):
    """Two kWh in each hour. Home Assistant has all of an outage in the hour behind it; later ones stay as they are."""
    for hour, value in zip(range(-1, 8), shown, strict=True):
        for minute, less in ((10, 1), (59, 0)):
            at = HOUR - AT + 3600 * hour + 60 * minute
            received = HOUR - AT + 3600 * max(late) + 3599 if hour in late else at
            tables.measure("attic", hour, at, received=received, name="meter", unit="kWh", value=float(value - less))
    tables.add("attic", 10)
    tables.write()
    sums = {HOUR + 3600 * hour: [one * state, one * total] for hour, (state, total) in theirs.items()}
    about = METER | {"statistics_unit_of_measurement": unit}
    home = Home(entities=[entity("sensor.attic", "attic-meter")], metadata=[about], sums=sums)
    for _ in range(2):  # again is no harm
        assert history(home, "--late", 1)[0] == 0
        expected = [one * (first + 2 * hour) for hour in range(8)]
        assert [home.sums[HOUR + 3600 * hour][1] for hour in range(8)] == pytest.approx(expected)
        assert [home.sums[HOUR + 3600 * hour][0] for hour in range(8)] == [one * value for value in shown[1:]]
        imported = [start(hour) for hour in late]
        assert [row["start"] for asked in home.imports for row in asked["stats"]] == imported
        home.asked.clear()


def test_an_hour_is_imported_when_home_assistant_has_its_own_statistics_of_it(tables):
    fill(tables)
    with Database(tables.root) as database:
        for s, found in ((599, [0]), (600, [0, 2])):
            _, rows = hours(database, HOUR + 3 * 3600 + s, 300)["attic-temperature"]
            assert [(row.start - HOUR) / 3600 for row in rows if row.late] == found


def test_the_unit_that_somebody_chose_and_an_earlier_version(tables, history):
    tables.measure("attic", 20, HOUR - AT, received=HOUR - AT + 9000, name="air", unit="Pa", value=101_300.0)
    fill(tables)

    def imported(name, unit, kind, version="2026.11.1"):
        known = TEMPERATURE | {"statistics_unit_of_measurement": unit, "unit_class": kind}
        home = Home(version, [entity("sensor.attic", f"attic-{name}")], [known])
        status, _, error = history(home)
        assert status == 0
        return error, home.imports

    _, (found,) = imported("temperature", "°F", "temperature", "2025.10.4")
    assert found["metadata"] == {name: TEMPERATURE[name] for name in ("statistic_id", "source", "name", "has_sum")} | {
        "unit_of_measurement": "°F",
        "has_mean": True,
    }
    assert [row["min"] for row in found["stats"]] == pytest.approx([68.0, 64.4])
    _, (found,) = imported("air", "hPa", "pressure")
    assert found["metadata"]["unit_of_measurement"] == "hPa"
    assert [row["mean"] for row in found["stats"]] == pytest.approx([1013])
    error, found = imported("temperature", "°R", "temperature")
    assert "sensor.attic has its statistics in °R, not in °C" in error and not found


def test_errors_tell_what_to_do(tables, history, tmp_path):
    fill(tables)
    (tmp_path / "wrong").write_text("another token")
    status, _, error = history(Home(), "--token-file", str(tmp_path / "wrong"))
    assert status == 1 and "does not take the token: make one in the profile" in error
    status, _, error = history(Home(), "--token-file", str(tmp_path / "none"))
    assert status == 1 and "none cannot be read: write the token into it" in error
    for url in ("homeassistant.local:8123", "ftp://homeassistant.local"):
        status, _, error = history(Home(), url=url)
        assert status == 1 and f"{url}: write it as https://homeassistant.local:8123" in error
    home = Home(entities=ENTITIES[:1], metadata=[TEMPERATURE], fails="recorder/import_statistics")
    status, _, error = history(home, plain=())  # it would send the token in plain text
    assert status == 1 and "use https, or --plain-http" in error and not home.asked
    status, _, error = history(home)
    assert status == 1 and "Home Assistant refuses recorder/import_statistics: Unauthorized" in error
