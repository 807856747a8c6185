"""What these tests need of an emulator: the firmware boots, joins and sleeps, and power cuts are exact."""

import asyncio

import pytest

from tools.emulators.esp32 import emulator, image
from tools.emulators.esp32.board import SSID, Board
from tools.emulators.power import HOW

_S = 200
_JOIN = f"import network, time; w = network.WLAN(); w.active(True); w.connect({SSID!r})\r"
_JOINED = "while not w.isconnected(): time.sleep_ms(20)\r\rprint('joi' + 'ned')"
_SLEEP = "import machine; machine.RTC().memory(b'kept'); machine.deepsleep(500)"
_WOKE = "import machine; print(machine.reset_cause() == machine.DEEPSLEEP_RESET, machine.RTC().memory())"
_WRITE = "f = open('/x', 'wb'); f.write(bytes(600)); f.close(); print('writ' + 'ten')"


@pytest.fixture
def board():
    if reason := emulator.unavailable():
        pytest.skip(reason)
    with Board(image.bare()) as board:
        yield board


def at_the_prompt(board, *steps, watched=False):
    """Switches the board on, types the first of each step at the prompt, and waits for the second."""

    async def live():
        await board.prompt(_S)
        for text, wanted in steps:
            await board.execute(text, _S, wanted)

    board.switch_on(watched)
    asyncio.run(live())


def test_the_firmware_joins_and_sleeps(board):
    at_the_prompt(board, (_JOIN + _JOINED, b"joined"), (_SLEEP, b">>> "), (_WOKE, b"True b'kept'"))


@pytest.mark.parametrize("how", HOW)
def test_power_goes_within_an_operation(board, how):
    """littlefs makes a file valid with the last thing that it programs."""
    at_the_prompt(board)
    board.switch_off()
    before = board.snapshot()
    at_the_prompt(board, (_WRITE, b"written"), watched=True)
    last = len(board.power.operations)
    board.switch_off()
    board.write({0: before})

    async def live():
        await board.prompt(_S)
        board.power.cut_at_operation(last, how, 1)
        board.type(_WRITE + "\r")
        await board.until(lambda: board.power.cut, _S, "the power cut")

    board.switch_on(watched=True)
    asyncio.run(live())
    written = image.unpack(board.snapshot()).get("/x") == bytes(600)
    assert board.power.cut == f"program {how}" and len(board.power.operations) == last
    assert written == (how == "after") and b"written" not in board.console
