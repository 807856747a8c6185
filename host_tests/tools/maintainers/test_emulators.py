"""What drives the emulated boards, without an emulator."""

import os
import socket
import stat

import pytest

from host_tests.waiting import wait_for
from tools.emulators.esp32 import emulator, power
from tools.emulators.esp32.board import line
from tools.emulators.esp32.chip import CHIP
from tools.emulators.esp32.console import Console
from tools.emulators.firmware_image import FirmwareImage, NoImage
from tools.emulators.power import HOW
from tools.setup.packages import sha256_of

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
PAGE = 0x1000
ALL = (
    ("-machine help", "esp32   Espressif ESP32 machine"),
    ("esp32_wifi,help", "netdev=<str>"),
    ("nvram.esp32.efuse,help", "drive=<str>"),
    ("-trace help", "m25p80_page_program"),
)


@pytest.fixture
def qemu(monkeypatch, tmp_path):
    """Makes a program that answers the emulator's options with what it `knows`, and names it."""

    def make(*knows):
        program = tmp_path / CHIP.program
        cases = "".join(f"*'{option}'*) echo '\n{answer}';;\n" for option, answer in knows)
        program.write_text(f"#!/bin/sh\ncase $* in\n{cases}esac\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("QEMU_ESP32", f"{program} -L /roms")
        return program

    emulator.command.cache_clear()
    yield make
    emulator.command.cache_clear()


def test_the_emulator_that_is_named_is_taken_if_it_lacks_nothing(qemu, monkeypatch, tmp_path):
    program = qemu(*ALL)
    assert emulator.command() == [str(program), "-L", "/roms"]
    emulator.command.cache_clear()
    qemu(ALL[0], ALL[3])
    with pytest.raises(emulator.NoEmulator, match=r"lacks the chip's Wi-Fi \(esp32_wifi\), the chip's eFuses: name"):
        emulator.command()
    monkeypatch.delenv("QEMU_ESP32")
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert emulator.unavailable() == f"no {CHIP.program}: name a {CHIP.program} with a machine esp32 in QEMU_ESP32"


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


def test_the_console_is_heard_and_lent():
    console = Console()
    here, board = line()
    console.listen(here)
    board.sendall(b"NOTE 5\r\nno NOTE 7\r\nNOTE ")
    with socket.create_connection(("127.0.0.1", console.port)) as client:
        client.sendall(b"import this")
        assert board.recv(100) == b"import this"
        board.sendall(b"12\r\nNOTE 1")
        wait_for(lambda: len(console.notes) == 2, 240)
        heard = client.recv(100)
    board.close()
    console.join()
    console.close()
    assert console.notes == [5, 12] and heard.endswith(b"12\r\nNOTE 1")
    assert console.said == b"NOTE 5\r\nno NOTE 7\r\nNOTE 12\r\nNOTE 1"


def test_firmware_is_all_of_its_image_or_none(monkeypatch, tmp_path):
    file = tmp_path / "PICO.uf2"
    monkeypatch.setenv("INFLIGHT_FIRMWARE", str(tmp_path))
    content = bytes(range(256)) * 40
    file.write_bytes(content)
    pinned = len(content), sha256_of(file)
    assert FirmwareImage("Pico W", file.name, *pinned).find() == file
    for damaged in (content[:-512], content[:5000] + b"x" + content[5001:]):
        file.write_bytes(damaged)
        with pytest.raises(NoImage, match="or not all of it"):
            FirmwareImage("Pico W", file.name, *pinned).find()
    file.unlink()
    with pytest.raises(NoImage, match=f"no Pico W firmware in {tmp_path}: put PICO.uf2"):
        FirmwareImage("Pico W", file.name, *pinned).find()
