"""`make deploy` onto an emulated board that is served on a TCP port, as onto one that hangs on a cable."""

import pytest

from host_tests.waiting import wait_for
from inflight_tools.boards.deploy import deploy
from inflight_tools.boards.device import link
from tools.peers.subscriber import Subscriber

pytestmark = pytest.mark.timeout(3600)
SILENCE_S = 1200  # the tool's own limit is for a chip: here littlefs may need minutes to compact a folder


def test_from_bare_firmware_to_a_publishing_sensor(emulated, broker, monkeypatch):
    monkeypatch.setattr(link, "_SILENCE_S", SILENCE_S)
    sensor = emulated.SENSOR
    settings = {"/config.json": sensor.config(broker.port, "deployed", interval_ms=1000)}
    with emulated.bare() as port, Subscriber(broker.port, "inflight/deployed/#") as subscriber:
        first = deploy(sensor.BOARD, port, settings)
        assert len(first.write) > 20 and not first.same
        wait_for(lambda: subscriber.find("inflight/deployed/telemetry"), SILENCE_S)
        status = wait_for(lambda: subscriber.find("inflight/deployed/status"), SILENCE_S)
        assert status[0].fields["state"] == "online"
        # Once more: nothing has changed, nothing is copied, and the journal goes on counting.
        last = subscriber.find("inflight/deployed/telemetry")[-1].fields
        again = deploy(sensor.BOARD, port)
        assert not again.write

        def later():  # the message that the deployment interrupted may come twice
            found = [one.fields for one in subscriber.find("inflight/deployed/telemetry")]
            return [one for one in found if one["seq"] > last["seq"]]

        assert wait_for(later, SILENCE_S)[0]["epoch"] == last["epoch"]
