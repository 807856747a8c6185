"""A board whose file system is no littlefs keeps its journal in slot files."""

import asyncio

import pytest

from inflight_tools.boards.deploy import deploy
from tools.emulators.esp32 import image, sensor
from tools.emulators.esp32.board import Board
from tools.peers.subscriber import Subscriber

pytestmark = [pytest.mark.long("INFLIGHT_ESP32"), pytest.mark.timeout(3600)]
_S = 300
_FORMAT = "import vfs; from flashbdev import bdev; vfs.umount('/'); vfs.VfsFat.mkfs(bdev); vfs.mount(bdev, '/')"


def test_what_waits_in_slot_files_outlives_a_power_cut(broker):
    settings = {"/config.json": sensor.config(broker.port, "slots", qos=2, interval_ms=500, health_ms=2000)}
    with Board(image.bare()) as board, Subscriber(broker.port, "inflight/slots/#") as subscriber:

        def numbers():
            return [one.fields["seq"] for one in subscriber.find("inflight/slots/telemetry")]

        async def first_life():
            await board.execute(_FORMAT, _S)
            deploy(sensor.BOARD, board.port, settings)
            await board.until(lambda: subscriber.find("inflight/slots/health") and numbers(), _S, "telemetry")

        async def second_life(last):
            await board.until(lambda: max(numbers()) > last, _S, "telemetry after the cut")

        board.switch_on()
        asyncio.run(first_life())
        board.switch_off()
        last = max(numbers())
        board.switch_on()
        asyncio.run(second_life(last))
        health = subscriber.find("inflight/slots/health")[0].fields
        assert health["journal"]["where"] == "slot files"
        assert len(numbers()) == len(set(numbers()))
        assert len({one.fields["epoch"] for one in subscriber.find("inflight/slots/telemetry")}) == 1
