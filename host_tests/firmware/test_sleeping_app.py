"""The sleeping application with a broker: each wake, and what the next one finds."""

import json
import time
from errno import ECONNRESET

import pytest

from codes import DEEP_SLEEP, IDLE, NO_AP, ONLINE, WRONG_KEY
from config import Config
from host_tests.broker import PATIENCE_S, Faults
from host_tests.firmware.conftest import Board, ShortRuns, gathered
from host_tests.waiting import wait_for
from inflight import RamFlash
from inflight.compat import ticks_add, ticks_ms
from sleeping_app import Memory
from tools.reference.kinds import DISCONNECT, SUBSCRIBE

SLEEP_MS = 60_000


def states(published):
    return [body["state"] for body in published("status")]


class Sleeper:
    """wake(port, ...) is one wake of a device: a new SleepingApp with the flash and the board's memory of the wakes
    before. Other arguments are fields of its configuration."""

    def __init__(self, make):
        self._make = make
        self.flash = RamFlash(8, 4096)
        self.board = None
        self.app = None

    def __call__(self, port, sources=None, began=None, **fields):
        if self.board:
            self.board.cause = DEEP_SLEEP
        fields = {"sleep_ms": SLEEP_MS, "health_ms": 1000, **fields}
        self.app = self._make(port, self.flash, sources, self.board, began, **fields)
        self.board = self.app.board
        return self.app.run()

    @property
    def accepted(self):
        return [seq for seq, _, _ in self.board.log]


@pytest.fixture
def wake(make):
    return Sleeper(make)


@pytest.fixture
def until_gone(broker):
    """until_gone(): the packets of the last connection, when its DISCONNECT has come."""

    def packets():
        wait_for(lambda: broker.connections[-1].packets[-1].kind == DISCONNECT, PATIENCE_S, "no DISCONNECT")
        return broker.connections[-1].packets

    return packets


# --- no network ---


def test_wifi_is_set_up_before_it_is_joined(wake, broker, nobody):
    """A join that fails is repeated in the same wake: a radio may find no access point, or refuse the right key, at its
    first attempt."""
    wake(nobody)
    wake.board.wifi = IDLE
    wake.board.joins = [NO_AP, WRONG_KEY, ONLINE]
    ip = ["10.0.0.2", "255.255.255.0", "10.0.0.1", "10.0.0.1"]
    wake(broker.port, wifi_ssid="net", wifi_key="the-wifi-key", hostname="attic", wifi_country="DE", wifi_ip=ip)
    assert wake.board.set_up == [("attic", "DE", ip)]
    assert [joined[:2] for joined in wake.board.joined] == [("net", "the-wifi-key")] * 3
    assert all(0 < ms <= 15_000 for _, _, ms in wake.board.joined) and wake.app.journal.live == 0


@pytest.mark.parametrize("silent", ["CONNACK", "SUBACK", "PUBACK"])
def test_wake_with_a_silent_broker_is_limited(automatic, wake, silent):
    first = {"CONNACK": 0x20, "SUBACK": 0x90, "PUBACK": 0x40}[silent]
    with automatic(Faults(answer=lambda raw: [] if raw[0] == first else [raw])) as broker:
        start = broker.clock.now
        wake(broker.port, awake_ms=1000, timeout_ms=60_000, watchdog_ms=0)
        assert broker.clock.now - start < 20  # far below the time-out
    assert wake.app.journal.live + len(broker.arrived) >= 1


def test_without_puback_status_messages_do_not_fill_the_journal(automatic, wake):
    with automatic(Faults(answer=lambda raw: [] if raw[0] == 0x40 else [raw])) as broker:
        for _ in range(8):
            wake(broker.port, awake_ms=1000, max_inflight=4, health_ms=86_400_000)
        kinds = [topic for _, _, topic in wake.board.log]
    assert kinds.count("telemetry") == 9 and kinds.count("status") <= 5  # one dates the first reading


# --- the radio ---


def test_radio_is_on_at_each_nth_wake(wake, broker, published):
    reports = []
    for n in range(9):
        wake(broker.port, report_every=4, batch=1)
        if len(broker.connections) > len(reports):
            reports.append(n)
    assert reports == [0, 4, 8]
    assert [body["seq"] for body in published()] == wake.accepted
    assert wake.app.journal.live == 0


def test_radio_is_on_when_settings_are_tried(wake, broker, monkeypatch):
    """They would be rolled back otherwise."""
    wake(broker.port, report_every=4)
    monkeypatch.setattr(Config, "trial", True)
    wake(broker.port, report_every=4)
    assert len(broker.connections) == 2
    assert not wake.app.config.trial  # confirmed


def test_a_journal_half_full_is_delivered_at_once(wake, broker, nobody):
    wake.flash = RamFlash(6, 1024)
    wake(nobody, report_every=255)
    used = []
    while not broker.connections:
        used.append(wake.app.journal.used)
        wake(broker.port, report_every=255)
    assert used[-2] < used[-1] < wake.app.journal.limit / 2 <= 2 * used[-1] - used[-2]
    assert wake.app.journal.live == 0


@pytest.fixture
def slow_broker(clock, automatic):
    """A broker that waits 20 ms before each PUBACK."""

    def answer(raw):
        clock.now += 0.02 if raw[0] == 0x40 else 0
        return [raw]

    with automatic(Faults(answer=answer)) as broker:
        yield broker


# --- status, health ---


def test_status_is_asleep_with_the_time_of_the_next_report(wake, broker, published):
    wake(broker.port)
    wake(broker.port, report_every=3)
    assert states(published) == ["online", "asleep"]
    wake(broker.port)
    assert states(published) == ["online", "asleep", "asleep"]
    last = [m for m in broker.arrived if m.topic.endswith("status")][-1]
    assert last.retain and last.qos == 1
    assert 50 <= json.loads(last.payload)["next_s"] <= 60
    wake(broker.port, report_every=2)
    wake(broker.port, report_every=2)
    assert 110 <= published("status")[-1]["next_s"] <= 120
    # The next wake begins 20 s after this report, which came 40 s after its wake began.
    wake(broker.port, awake_ms=60_000, began=ticks_add(ticks_ms(), -40_000))
    assert 60 <= published("status")[-1]["next_s"] <= 61


def test_mqtt_5_reports_a_device_that_does_not_come_back(wake, broker, until_gone):
    """It leaves with its will, which waits for two and a half intervals between reports."""
    for fields, delay in (({}, 150), ({"report_every": 2}, 300), ({"will_delay_s": 999}, 999)):
        wake(broker.port, protocol_level=5, **fields)
        wake(broker.port, protocol_level=5, **fields)
        packets = until_gone()
        assert packets[0].will_properties == [(0x18, delay)]
        assert packets[-1].code == 4


def test_a_restart_is_no_absence(wake, broker, published, until_gone):
    wake(broker.port, protocol_level=5)
    broker.give("inflight/dev/command/reboot", b"", 2)
    while not wake.app.stopping:  # a busy broker may send the command after the wake has ended
        wake(broker.port, protocol_level=5)
    assert until_gone()[-1].code == 0
    assert published("reply/reboot")[0]["ok"] and states(published)[-1] == "offline"
    assert not broker.sessions["dev"].flight


def test_readings_expire_while_the_device_sleeps(wake, nobody, broker, published):
    """What it knows of its sleep: the rest of each period, less a sixteenth."""
    fields = {"protocol_level": 5, "expiry_s": 80}
    wake(nobody, **fields)
    app = wake.app
    assert app.slept(wake.board, app.config) == 0  # of a power cut nobody knows how long it was
    wake.board.cause = DEEP_SLEEP
    assert 0 < app.slept(wake.board, app.config) <= 56
    for _ in range(2):
        wake(nobody, **fields)
    assert wake.app.journal.live == 4
    wake(broker.port, **fields)
    assert wake.app.client.counters()["expired"] == 2
    first, second = (m for m in broker.arrived if m.topic.endswith("telemetry") and b'"boot"' not in m.payload)
    assert dict(first.properties)[2] < 80 and dict(second.properties)[2] == 80


def test_health_has_the_durations_of_the_last_wake(wake, broker, published):
    for _ in range(2):
        wake(broker.port)
    first, second = published("health")
    assert first["wake"] is None
    phases = second["wake"]
    assert set(phases) == {"read", "journal", "wifi", "connect", "deliver", "total", "missed"}
    assert phases["total"] == sum(phases[name] for name in ("read", "journal", "wifi", "connect", "deliver"))
    assert phases["deliver"] >= 250 and phases["missed"] == 0
    assert second["reset"] == DEEP_SLEEP
    for _ in range(6):
        wake(broker.port, health_ms=3 * SLEEP_MS)
    assert len(published("health")) == 4


# --- gathered readings ---


def test_readings_of_an_outage_are_gathered(wake, broker, nobody, published):
    """Over all wakes: each with its number and its time."""
    count = iter(range(1000))

    def source():
        yield "count", None, next(count)

    for _ in range(12):
        wake(nobody, [source])
    assert wake.app.journal.live == 3  # the first one, what dates it, and all others
    for _ in range(2):
        wake(broker.port, [source])
    found = gathered(broker)
    assert [values["count"] for _, values in found.values()] == list(range(14))
    assert set(found) <= set(wake.accepted) and wake.app.journal.live == 0
    assert published("health")[0]["wake"]["missed"] == 12


def test_a_message_that_may_have_been_sent_stays(wake, nobody, automatic):
    """A broker that acknowledges nothing has it perhaps."""
    wake(nobody)
    wake(nobody)
    with automatic(Faults(answer=lambda raw: [] if raw[0] == 0x40 else [raw])) as silent:
        wake(silent.port, awake_ms=1000)
        before = wake.app.journal.live
        wake(nobody)
    assert wake.app.journal.live == before + 1


# --- the clock ---


def remember(wake, **known):
    memory = Memory(wake.board.memory)
    for name, value in known.items():
        assert hasattr(memory, name)
        setattr(memory, name, value)
    wake.board.memory = memory.pack()


def test_clock_is_set_at_the_first_report_and_then_each_hour(wake, broker, published):
    """One answer alone is compared with the next one."""
    for _ in range(2):
        wake(broker.port, ntp="time.example")
    for reports, asked in ((0, 2), (59, 2), (60, 3)):
        remember(wake, sync=reports)
        wake(broker.port, ntp="time.example")
        assert wake.board.asked == ["time.example"] * asked
    for sleep_ms, reports in ((1000, 254), (86_400_000, 0)):
        remember(wake, sync=reports)
        before = len(wake.board.asked)
        wake(broker.port, sleep_ms=sleep_ms)
        assert len(wake.board.asked) == before + 1
    times = [body["bt"] for body in published("telemetry")]
    assert times[0] == 0 and all(t > 1_700_000_000 for t in times[1:])


@pytest.mark.parametrize("tls", [True, False])
def test_clock_is_set_before_the_device_connects_with_tls(wake, broker, tls):
    """TLS refuses certificates that are not valid yet. Without it the readings come first."""
    fields = {"tls_ca": "ca.pem"} if tls else {}
    wake(broker.port, **fields)
    wake.board.memory = None
    wake.board.sync_time = lambda host, within: connections.append(len(broker.connections))
    connections = []
    wake(broker.port, **fields)
    assert connections == [1 if tls else 2] and len(broker.connections) == 2


def test_an_older_session_gets_its_subscription_within_a_day(wake, broker, published):
    """A broker that was not stopped in order has a session of hours ago, and says that it is there. Commands reach the
    device all the same, and most wakes do not subscribe."""
    for _ in range(4):
        wake(broker.port, sleep_ms=2 * 3_600_000)
    for session in broker.sessions.values():
        session.subscriptions.clear()
    for k in range(10):
        broker.give("inflight/dev/command/ping", b"%d" % k, 1)
        wake(broker.port, sleep_ms=2 * 3_600_000)
    assert [body["echo"] for body in published("reply/ping")][-2:] == ["8", "9"]
    assert sum(p.kind == SUBSCRIBE for c in broker.connections for p in c.packets) < 7


def test_a_time_far_from_the_known_one_is_refused(wake, broker, published):
    """What the clock may have lost since it was set depends on how long ago that was. Answers of an hour, two at least,
    overrule the known time; the first of them, if one answer alone has set it."""
    for _ in range(2):
        wake(broker.port, sleep_ms=3_600_000)
    assert [bool(within) for within in wake.board.within] == [False, True]  # it knew nothing
    wake.board.clock = None
    for reports in (1, 2, 200):
        remember(wake, sync=reports, doubts=0)
        wake(broker.port, sleep_ms=3_600_000)
        least, most = wake.board.within[-1]
        assert abs((least + most) / 2 - time.time()) < 60 * 60
        assert (most - least) // 2 == 15 * 60 + (reports + 1) * 72
        assert Memory(wake.board.memory).sync == reports + 1  # asked again with the next report
        wake.board.wifi = IDLE
        wake(broker.port, sleep_ms=3_600_000)
        wake.board.wifi = ONLINE
        assert Memory(wake.board.memory).sync == reports + 2
    for sleep_ms, most in ((3_600_000, 2), (900_000, 4), (60_000, 7), (86_400_000, 2)):
        wake.board.clock = None
        remember(wake, sync=254, doubts=0)
        before = len(wake.board.within)
        for _ in range(most):
            wake(broker.port, sleep_ms=sleep_ms)
        wake.board.clock = True
        wake(broker.port, sleep_ms=sleep_ms)
        wake.board.clock = None
        for _ in range(2):
            wake(broker.port, sleep_ms=sleep_ms)
        assert [within is None for within in wake.board.within[before:]] == [False] * most + [True, False, True]
    assert published("telemetry")[-2]["bt"] > 1_700_000_000


def test_readings_are_dated_later_if_the_journal_is_full(wake, slow_broker, nobody, monkeypatch):
    wake.board = Board()
    wake.board.clock = False
    wake.flash = RamFlash(6, 1024)
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda: 0.0)
        while wake.app is None or wake.app.full < 2:
            wake(nobody, batch=1)
    wake.board.clock = True
    wake(nobody, batch=1)
    for _ in range(2):
        wake(slow_broker.port)
    packs = [json.loads(m.payload)[0] for m in slow_broker.arrived if m.topic.endswith("telemetry")]
    (dating,) = [pack for pack in packs if "boot" in pack]
    undated = [pack for pack in packs if "up" in pack and "boot" not in pack]
    assert undated[0]["seq"] == dating["boot"] == 0
    assert all(pack["seq"] < dating["seq"] and pack["up"] <= dating["up"] for pack in undated)
    assert [pack["up"] for pack in undated[:3]] == pytest.approx([0, 60, 120], abs=2)


# --- commands ---


def test_it_stays_awake_on_command(wake, broker, published):
    wake(broker.port)
    broker.give("inflight/dev/command/stay-awake", b"1500", 2)
    wake(broker.port, watchdog_ms=60_000, awake_ms=1000)
    assert published("reply/stay-awake")[0]["ok"]
    assert Memory(wake.board.memory).phases[-1] >= 1_000
    assert len(wake.board.fed) > 1
    first, last = published("status")[-2:]
    assert first["state"] == last["state"] == "asleep" and first["next_s"] - last["next_s"] in (0, 1, 2)
    assert wake.app.journal.live == 0 and Memory(wake.board.memory).missed == 0


def test_what_a_device_that_sleeps_refuses(wake, broker, published):
    wake(broker.port)
    for name, payload, error in (
        *(("stay-awake", payload, "from 0 to 3600000") for payload in (b"", b"soon", b"-1", b"3600001")),
        ("interval", b"5000", "sleep_ms"),
    ):
        broker.give(f"inflight/dev/command/{name}", payload, 2)
        wake(broker.port)
        reply = published(f"reply/{name}")[-1]
        assert not reply["ok"] and error in reply["error"], (name, payload)


@pytest.mark.parametrize("breaks", [False, True])
def test_what_a_handler_may_not_do_follows(wake, broker, published, monkeypatch, breaks):
    """Also if the connection breaks right behind the handler."""
    run_for = ShortRuns.run_for

    def broken(client, ms):
        run_for(client, ms)
        if wake.app.later:
            raise OSError(ECONNRESET, "connection lost")

    wake(broker.port)
    if breaks:
        monkeypatch.setattr(ShortRuns, "run_for", broken)
    for _ in range(2):
        broker.give("inflight/dev/command/retry", b"", 2)
        wake(broker.port)
        assert not wake.app.later
    monkeypatch.undo()
    wake(broker.port)
    assert [reply["ok"] for reply in published("reply/retry")] == [True, True]
