"""A bare Pico W that got the file of `make image BOARD=pico_w`, and nothing else: real firmware, real file system, real
application."""

import pytest

from dev.ear import Ear
from dev.pico_w import copies, image, sensor
from dev.pico_w.board import Board
from dev.pico_w.filesystem import unpack
from inflight_tools.boards.bundle import files
from inflight_tools.boards.images.uf2 import Uf2Image
from inflight_tools.boards.images.variants import variant


@pytest.mark.long("INFLIGHT_PICO_W")
@pytest.mark.timeout(600)
def test_it_goes_online_publishes_and_obeys(broker, tmp_path):
    application = files(sensor.BOARD)
    settings = sensor.config(broker.port, "bare", qos=2, interval_ms=1000)
    finished = Uf2Image(variant("pico_w"), image.find().read_bytes(), application | {"/config.json": settings})
    (tmp_path / "pico_w.uf2").write_bytes(finished.file())
    board = Board(uf2=tmp_path / "pico_w.uf2")

    async def live(board):
        with Ear(broker.port, "inflight/bare/#") as ear:
            await board.until(lambda: ear.find("inflight/bare/status"), 400, "the birth message")
            ear.say("inflight/bare/command/ping", "hello")
            await board.until(lambda: ear.find("inflight/bare/reply/ping"), 60, "the reply to a command")
            await board.until(lambda: len(ear.find("inflight/bare/telemetry")) > 1, 60, "telemetry")
            return ear.heard

    heard = copies.staged(live, board, board.switch_on)
    told = {one.topic.rpartition("bare/")[2]: one for one in heard}
    assert told["status"].fields["state"] == "online"
    assert told["health"].fields["journal"]["where"] == "pinned files"
    assert told["health"].fields["errors"] == {}
    assert told["health"].fields["heap"] > 120_000
    assert told["telemetry"].qos == 2
    assert told["telemetry"].fields["bt"] > 1_700_000_000, "the clock was not set"
    assert told["reply/ping"].fields["echo"] == "hello"
    # The journal took its place beside the user's files, and touched none.
    kept = {path: content for path, content in unpack(board.snapshot()).items() if not path.startswith("/journal/")}
    assert kept == application | {"/config.json": settings}
