"""The emulated board's own parts, without a firmware that runs."""

import asyncio
import random

import pytest
from rp2040py.peripherals import ssi as chip

from tools.emulators.pico_w import gateway
from tools.emulators.pico_w.board import Board
from tools.emulators.power import HOW

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")

AT = 0x1F0000


@pytest.mark.parametrize("host", ["8.8.8.8", "10.0.0.2", "127.0.0.1"])
def test_nothing_but_this_machine_is_routed(host):
    with pytest.raises(OSError, match="not routed"):
        asyncio.run(gateway.dial(host, 80))


def operate(board, command, address, data=b""):
    """As the firmware drives the flash chip."""
    ssi = board.mcu.ssi
    ssi._write_enabled = True
    ssi._tx_buffer = bytearray([command, *address.to_bytes(3, "big"), *data])
    ssi._apply_command()


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("seed", range(20))
def test_power_goes_at_an_operation(how, seed):
    board = Board({AT: b"\xff" * 4096})
    data = random.Random(seed).randbytes(256)
    board.power.cut_at_operation(2, how, seed)
    operate(board, chip.CMD_PAGE_PROGRAM, AT, data)
    operate(board, chip.CMD_PAGE_PROGRAM, AT + 256, data)
    operate(board, chip.CMD_PAGE_PROGRAM, AT + 512, data)
    first, second, third = (board.snapshot()[AT + i * 256 : AT + (i + 1) * 256] for i in range(3))
    assert board.power.cut == f"program {how}"
    assert first == data and third == b"\xff" * 256, "the flash changed without power"
    if how == "torn":
        # Some bytes as written, one with some of its bits, none after it.
        torn = next((i for i in range(256) if second[i] != data[i]), 256)
        assert all(byte == 0xFF for byte in second[torn + 1 :])
        assert torn == 256 or second[torn] & data[torn] == data[torn]
    else:
        assert second == (data if how == "after" else b"\xff" * 256)
