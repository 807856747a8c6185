"""MicroPython itself is updated over MQTT: it comes into the partition that does not run, and the chip's bootloader
tries it, or goes back. Beside both, there is space for a release of the application."""

import asyncio
import struct

import pytest

from host_tests.emulated_boards.chain import sent
from host_tests.emulated_boards.fleet import BROKEN, GOOD, Fleet, Outcomes
from host_tests.emulated_boards.judge import Cuts, judge
from inflight_tools.broker import Broker
from inflight_tools.update.server import Server
from tools.emulators.esp32 import emulator, image, sensor
from tools.emulators.esp32.board import Board
from tools.peers.subscriber import Subscriber

pytestmark = [pytest.mark.timeout(3600), pytest.mark.long("INFLIGHT_ESP32")]
_S = 900
_OTADATA = 0xD000
_VALID, _GIVEN_UP = 2, (3, 4)  # invalid, aborted


def selected(flash):
    """(number of the partition that starts, its state), as the bootloader reads them."""
    entries = [struct.unpack("<I20xII", flash[at : at + 32]) for at in (_OTADATA, _OTADATA + 0x1000)]
    number, state, _ = max(entry for entry in entries if entry[0] != 0xFFFFFFFF and entry[1] not in _GIVEN_UP)
    return (number - 1) % 2, state


def resets(board):
    """How often it has started since it was switched on."""
    return board.console.count(b"rst:0x")


def test_firmware_is_updated_and_comes_back(broker, record_property):
    if reason := emulator.unavailable():
        pytest.skip(reason)
    fleet = Fleet(sensor, broker.port)
    content = image.FIRMWARE.find().read_bytes()
    place = Broker("127.0.0.1", broker.port, "inflight", None, None, None, None)
    cuts = Cuts(0)

    async def until(happened, what):
        await board.until(happened, _S, what)

    async def trial_begins(number):
        server.announce("box", fleet.firmware(number, content))
        # One restart for the switch, and one into the new firmware.
        await until(lambda: resets(board) >= 3, f"the trial of firmware {number}")

    async def cut_in_the_trial():
        await trial_begins(1)
        online = len(subscriber.find("inflight/box/status"))
        await until(lambda: len(subscriber.find("inflight/box/status")) > online, "its birth message")

    async def tried_again():
        await until(lambda: outcomes.of(1), "the outcome of firmware 1")

    async def without_a_network():
        await until(lambda: subscriber.find("inflight/box/status"), "a connection")
        server.announce("box", fleet.firmware(2, content))
        await until(lambda: resets(board) >= 2, "the switch to firmware 2")
        board.network_away()
        await until(lambda: resets(board) >= 4, "the end of its trial")
        board.network_back()
        await until(lambda: outcomes.of(2), "the outcome of firmware 2")

    async def an_application():
        server.announce("box", fleet.release(3, GOOD))
        await until(lambda: outcomes.of(3), "the outcome of application 3")

    flash = bytes(image.finished(fleet.files(ota=True, buffer=4096), ota=True))
    with Server(place) as server, Subscriber(broker.port, "inflight/box/#", "judge") as subscriber:
        outcomes = Outcomes(server)
        with Board(flash) as board:
            for work in (cut_in_the_trial, tried_again, without_a_network, an_application):
                board.switch_on()
                asyncio.run(work())
                board.switch_off()
                if work is not an_application:  # its last messages are on their way
                    cuts.ended("power", board.notes)
                number, state = selected(board.snapshot())
                assert number == 1, work.__name__
                assert state == _VALID or work is cut_in_the_trial, (work.__name__, state)
        assert outcomes.told == {1: GOOD, 2: BROKEN, 3: GOOD}
        judge(cuts, lambda: sent(subscriber), record_property)
