"""`make deploy` onto an emulated Pico W that is served on a TCP port, as onto one that hangs on a cable."""

import subprocess
import sys
from pathlib import Path

import pytest

from deploy import deploy
from pico_w import sensor
from pico_w.ear import Ear
from waiting import wait_for

pytestmark = [pytest.mark.long("INFLIGHT_PICO_W"), pytest.mark.limit(900)]
SERVE = Path(__file__).resolve().parents[2] / "tools" / "pico_w" / "serve.py"


@pytest.fixture
def port():
    """A Pico W with nothing but its firmware."""
    process = subprocess.Popen([sys.executable, str(SERVE)], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().removeprefix("ready:").strip()
    finally:
        process.kill()
        process.wait()


def test_from_bare_firmware_to_a_publishing_sensor(port, broker):
    settings = {"/config.json": sensor.config(broker.port, "deployed", interval_ms=1000)}
    with Ear(broker.port, "inflight/deployed/#") as ear:
        first = deploy(sensor.BOARD, port, settings)
        assert len(first.write) > 20 and not first.same
        wait_for(lambda: ear.find("inflight/deployed/telemetry"), 400)
        status = wait_for(lambda: ear.find("inflight/deployed/status"), 60)
        assert status[0].fields["state"] == "online"
        # Once more: nothing has changed, nothing is copied, and the journal goes on counting.
        last = ear.find("inflight/deployed/telemetry")[-1].fields
        again = deploy(sensor.BOARD, port)
        assert not again.write
        before = len(ear.heard)
        wait_for(lambda: [one for one in ear.heard[before:] if one.topic == "inflight/deployed/telemetry"], 400)
        now = ear.find("inflight/deployed/telemetry")[-1].fields
        assert now["epoch"] == last["epoch"] and now["seq"] > last["seq"]
