"""An ESP32 on a serial port, by esptool, with errors as one line."""

import contextlib
import re

import serial
from esptool import cmds
from esptool.logger import log
from esptool.util import FatalError, flash_size_bytes

_BAUD = 460_800


def chip_on(device):
    """What the chip on port `device` calls itself, "ESP32-C3". It stays in its boot program. ValueError."""
    log.set_verbosity("silent")
    with _explained(device):
        chip = cmds.connect_esp(device)
        chip._port.close()
        return chip.CHIP_NAME


class Esp32Port:
    """The board on port `device`, whose chip is `chip`; a context manager. ValueError with one line for any error."""

    def __init__(self, device, chip):
        self.device, self.chip = device, chip

    def __enter__(self):
        log.set_verbosity("silent")
        with _explained(self.device):
            self._esp = cmds.connect_esp(self.device, chip=self.chip)
            self._esp = cmds.run_stub(self._esp)
            if self._esp.IS_STUB:
                self._esp.change_baud(_BAUD)
            cmds.attach_flash(self._esp)
        return self

    def __exit__(self, *exc):
        # After an error the board stays in its boot program: an incomplete image must not start.
        self._esp._port.close()

    def _do(self, command, *arguments, **options):
        with _explained(self.device):
            return command(self._esp, *arguments, **options)

    def flash_size(self):
        """Bytes of flash; None if the chip does not report it."""
        size = self._do(cmds.detect_flash_size)
        return flash_size_bytes(size) if size else None

    def read(self, address, size):
        """`size` bytes of the flash."""
        return self._do(cmds.read_flash, address, size, no_progress=True)

    def identity(self):
        """The address of its Wi-Fi, 12 hexadecimal digits."""
        return bytes(self._do(lambda esp: esp.read_mac())).hex()

    def erase(self):
        """Erases all of the flash."""
        self._do(cmds.erase_flash)

    def write(self, address, content):
        """Writes and verifies."""
        self._do(cmds.write_flash, [(address, content)], flash_size="keep", no_progress=True)

    def restart(self):
        """Starts the written program."""
        self._do(cmds.reset_chip, "hard-reset")


@contextlib.contextmanager
def _explained(device):
    try:
        yield
    except (FatalError, serial.SerialException, OSError) as e:
        raise ValueError(explain(device, str(e))) from None


def explain(device, text):
    """One line about an error of esptool's on port `device`, with advice."""
    if re.search("No such file|FileNotFound", text):
        return f"no port {device}: is the board connected? `mpremote devs` lists the ports"
    if re.search("Permission denied|PermissionError", text):
        return f"{device}: permission denied: add yourself to the group that owns it (dialout), and log in again"
    if re.search("exclusively lock|Resource temporarily unavailable|Access is denied|busy", text):
        return f"{device} is busy: close the terminal or the tool that has it open"
    if found := re.search("This chip is ([^,]+), not ([^.]+)", text):
        return f"the board on {device} is an {found[1]}, not an {found[2]}: name the right one with --board"
    if re.search("Input/output error|disconnected|No more data", text):
        return f"{device}: the board went away: connect it and flash it again"
    if "Failed to connect" in text:
        return f"no answer on {device}: hold the board's BOOT button, press and release its RESET button, and try again"
    return f"{device}: {' '.join(text.split())}"
