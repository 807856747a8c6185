"""`make deploy` onto an emulated board that is served on a TCP port, as onto one that hangs on a cable."""

import pytest

from dev.ear import Ear
from host_tests.waiting import wait_for
from inflight_tools.boards.deploy import deploy

pytestmark = pytest.mark.timeout(900)


def test_from_bare_firmware_to_a_publishing_sensor(emulated, broker):
    sensor = emulated.SENSOR
    settings = {"/config.json": sensor.config(broker.port, "deployed", interval_ms=1000)}
    with emulated.bare() as port, Ear(broker.port, "inflight/deployed/#") as ear:
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
