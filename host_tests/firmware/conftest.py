"""An application on a board made of RAM, and a well-behaved broker to judge it by."""

import sys
import time
from pathlib import Path

import pytest

HOST_TESTS = Path(__file__).resolve().parents[1]
CHECKOUT = HOST_TESTS.parent
DEVICE_PATH = [CHECKOUT / name for name in ("lib", "boards/common", "boards/unix", "firmware")]
for folder in (HOST_TESTS, CHECKOUT / "tools", *DEVICE_PATH):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from app import App, will  # noqa: E402
from broker import Automatic  # noqa: E402
from codes import IDLE, ONLINE, POWER_ON  # noqa: E402
from config import Config  # noqa: E402
from inflight import Client, Journal, RamFlash  # noqa: E402


class Board:
    """What the application asks of a board; notes what it was told."""

    NAME = "ram"

    def __init__(self):
        self.readings = [("temperature", "Cel", 21.5)]
        self.wifi = ONLINE
        self.clock = True
        self.joined, self.fed, self.log = [], [], []

    def sensors(self):
        yield from self.readings

    def wifi_status(self):
        return self.wifi

    def wifi_connect(self, ssid, key, timeout_ms):
        self.joined.append((ssid, key, timeout_ms))
        return IDLE

    def sync_time(self):
        return self.clock

    def rssi(self):
        return -67

    def reset_cause(self):
        return POWER_ON

    def watchdog(self, ms):
        self.fed.append(ms)

    def accepted(self, seq, qos, topic):
        self.log.append((seq, qos, topic))


class Maker:
    """make(port, ...) is an App on a Board of its own; other arguments are fields of its configuration."""

    def __init__(self):
        self.apps = []

    def __call__(self, port, flash=None, sources=None, **fields):
        config = Config({"host": "127.0.0.1", "port": port, "interval_ms": 100, **fields}, "dev")
        journal = Journal(flash or RamFlash(8, 4096))
        client = Client(
            config.host,
            config.device,
            journal,
            port=config.port,
            will=will(config),
            keepalive=0,
            drop=config.drop,
            timeout=3000,
            backoff=(0, 0),
            on_error=lambda error: None,
        )
        self.apps.append(App(Board(), config, journal, client, sources))
        return self.apps[-1]


@pytest.fixture
def make():
    maker = Maker()
    yield maker
    for app in maker.apps:
        app.client._close()


@pytest.fixture
def broker():
    with Automatic() as broker:
        yield broker


@pytest.fixture
def until():
    """until(app, condition): steps the application until the condition holds, at most for five seconds."""

    def run(app, condition):
        end = time.monotonic() + 5
        while not condition():
            assert time.monotonic() < end, "did not happen in 5 s"
            app.step()
        return condition()

    return run
