"""A sensor whose application fails at each start goes on in safe mode, where it can be reached."""

import pytest

from host_tests.emulated_boards.tasks import CODE, harness
from inflight_tools.boards.build.bundle import files
from tools.peers.subscriber import Subscriber

pytestmark = pytest.mark.timeout(3600)
_S = 1200
_CRASHES = 3
_BASE = "inflight/broken/"


def flash(emulated, port):
    """That of a board with a defect, which has not started yet."""
    board = emulated.SENSOR.BOARD
    config = emulated.SENSOR.config(port, "broken", qos=2, keepalive=0)
    own = {"/main.py": (CODE / "crashing.py").read_bytes(), "/config.json": config}
    return emulated.installed(files(board) | harness(board) | own)


def test_safe_mode(emulated, broker):
    """It connects, tells the error once, and executes commands; what was accepted before each crash is delivered."""

    async def live(board):
        with Subscriber(broker.port, _BASE + "#") as subscriber:

            def told(topic):
                return [one.fields for one in subscriber.find(_BASE + topic)]

            await board.until(lambda: told("status"), _S, "a start that connects")
            starts = len(board.notes)
            subscriber.publish(_BASE + "command/ping", "safe")
            await board.until(lambda: told("reply/ping"), _S, "the reply to a command")
            await board.until(lambda: len(told("health")) > 1, _S, "two health messages")
            readings = [pack for pack in told("telemetry") if "n" in pack]
            return starts, told("status")[0], told("reply/ping")[0], told("health"), readings

    (starts, status, reply, healths, telemetry), _ = emulated.cold(flash(emulated, broker.port), live)
    assert starts == _CRASHES + 1
    assert status["safe"] and status["state"] == "online"
    assert reply["echo"] == "safe"
    assert [health["error"]["text"] for health in healths if "error" in health] == ["RuntimeError: a broken driver"]
    assert len({pack["seq"] for pack in telemetry}) == len(telemetry) == _CRASHES
