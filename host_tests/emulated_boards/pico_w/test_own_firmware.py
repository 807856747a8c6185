"""A firmware that a person built with modules frozen in, or with a ROM file system (PICOW_UF2), on the emulated Pico W:
what `inflight board image` makes of it, and what `make deploy` finds on it."""

import pytest

from host_tests.emulated_boards import pico_w_bench
from host_tests.emulated_boards.test_deploy import SILENCE_S
from inflight_tools.boards.deploy import deploy
from inflight_tools.boards.device import link
from inflight_tools.boards.device.files import RECORD
from tools.emulators.pico_w import own, sensor
from tools.peers.subscriber import Subscriber

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(params=own.firmware() or [None], ids=lambda one: one.what if one else "none")
def firmware(request, record_property):
    if not request.param:
        pytest.skip(own.NONE)
    record_property("firmware", str(request.param))
    return request.param


def _config(broker):
    return sensor.config(broker.port, "own", qos=2, interval_ms=1000, health_ms=5000)


def test_its_image_publishes_and_has_nothing_twice(firmware, broker, tmp_path, record_property):
    settings = _config(broker)

    async def live(board):
        with Subscriber(broker.port, "inflight/own/#") as subscriber:
            await board.until(lambda: subscriber.find("inflight/own/health"), 600, "a health message")
            subscriber.publish("inflight/own/command/ping", "hello")
            await board.until(lambda: subscriber.find("inflight/own/reply/ping"), 60, "the reply to a command")
            await board.until(lambda: subscriber.find("inflight/own/status"), 60, "the birth message")
            return subscriber.messages

    delivered, _, kept = pico_w_bench.run_image(tmp_path, firmware.image(settings), live)
    told = {one.topic.rpartition("own/")[2]: one.fields for one in delivered if "/command/" not in one.topic}
    assert told["status"]["state"] == "online" and told["health"]["errors"] == {}
    assert told["health"]["heap"] > pico_w_bench.HEAP
    record_property("free heap of a connected sensor", told["health"]["heap"])
    kept = {path: content for path, content in kept.items() if path != RECORD and not path.startswith("/journal/")}
    assert kept == firmware.files() | {"/config.json": settings}
    assert not any(path.startswith("/lib/inflight/") for path in kept)


def test_a_deployment_brings_what_it_lacks(firmware, broker, monkeypatch):
    monkeypatch.setattr(link, "_SILENCE_S", SILENCE_S)
    with pico_w_bench.bare(firmware.path) as port:
        in_rom = firmware.rom is not None
        plan = deploy(sensor.BOARD, port, {"/config.json": _config(broker)}, in_rom)
        assert {*plan.write} - {RECORD} == {*firmware.files(), "/config.json"}
        assert bool(plan.rom) == in_rom
        again = deploy(sensor.BOARD, port, None, in_rom)
        assert not again.write and not again.rom
