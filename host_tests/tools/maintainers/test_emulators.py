"""What drives the emulated boards, without an emulator."""

import os

import pytest

from tools.emulators.esp32 import power
from tools.emulators.power import HOW

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
PAGE = 0x1000


class Emulator:
    """Writes the trace that QEMU writes; `alive` until it is killed."""

    def __init__(self, flash):
        read, self._write = power.pipe()
        self.alive = True
        self.words = []
        self.power = power.Power(flash, read, self._kill, self.words.append)

    def _kill(self):
        self.alive = False

    def say(self, text):
        if self.alive:
            try:
                os.write(self._write, text.encode() + b"\n")
            except BrokenPipeError:
                assert not self.alive

    def program(self, address, data):
        self.say("m25p80_select [0x1] select")
        for i, byte in enumerate(data):
            self.say(f"m25p80_page_program [0x1] page program cur_addr=0x{address + i:x} data=0x{byte:x}")
        self._ask()

    def erase(self, address):
        self.say("m25p80_select [0x1] select")
        self.say(f"m25p80_flash_erase [0x1] offset = 0x{address:x}, len = 4096")
        self._ask()

    def _ask(self):
        for _ in range(3):  # is it done?
            self.say("m25p80_select [0x1] deselect")
            self.say("m25p80_select [0x1] select")

    def end(self):
        os.close(self._write)
        return self.power.join()


def test_programs_and_erases_reach_the_flash():
    chip = Emulator(b"\xff" * 0x3000)
    chip.say("Not initializing SPI Flash")
    chip.program(PAGE + 4, b"\x0f\xf0")
    chip.program(PAGE + 4, b"\x3c")
    chip.program(0x2000, b"gone")
    chip.erase(0x2000)
    flash = chip.end()
    assert flash[PAGE : PAGE + 8].hex() == "ffffffff0cf0ffff" and flash[0x2000:] == b"\xff" * 0x1000
    assert chip.power.operations == [("program", PAGE)] * 2 + [("program", 0x2000), ("erase", 0x2000)]
    assert chip.words == [b"Not initializing SPI Flash\n"] and not chip.power.cut


@pytest.mark.parametrize("how", HOW)
def test_power_goes_at_an_operation(how):
    chip = Emulator(b"\xff" * 0x3000)
    chip.power.cut_at_operation(2, how, 3)
    data = bytes(range(40))
    for i in range(3):
        chip.program(PAGE + 64 * i, data)
    flash = chip.end()
    first, second, third = (flash[PAGE + 64 * i :][:40] for i in range(3))
    assert chip.power.cut == f"program {how}" and not chip.alive
    assert first == data and third == b"\xff" * 40, "the flash changed without power"
    if how == "torn":
        torn = next((i for i in range(40) if second[i] != data[i]), 40)
        assert all(byte == 0xFF for byte in second[torn + 1 :])
    else:
        assert second == (data if how == "after" else b"\xff" * 40)
