"""The emulator: a QEMU that knows the chip with its flash and its Wi-Fi."""

import os
import shlex
import shutil
import subprocess
from functools import cache

from tools.emulators.esp32.chip import CHIP, FIRMWARE
from tools.emulators.firmware_image import Unavailable

_PROBE_S = 60
# What has to be there: (options that show it, what they print then, what is missing otherwise).
_NEEDS = (
    (("-machine", "help"), f"\n{CHIP.machine} ", f"the machine {CHIP.machine}"),
    (("-machine", "none", "-device", "esp32_wifi,help"), "netdev=", "the chip's Wi-Fi (esp32_wifi)"),
    (("-machine", "none", "-device", f"{CHIP.efuse},help"), "drive=", "the chip's eFuses"),
    (("-trace", "help"), "m25p80_page_program", "trace events of the flash chip"),
)


@cache
def command():
    """The emulator as a list of words: QEMU_ESP32, which may add options (-L and the folder of its ROM files), or
    the chip's QEMU in PATH. Raises Unavailable."""
    words = shlex.split(os.environ.get("QEMU_ESP32", "")) or [CHIP.program]
    program = shutil.which(words[0])
    if not program:
        raise Unavailable(f"no {words[0]}: name a {CHIP.program} with a machine {CHIP.machine} in QEMU_ESP32")
    words = [program, *words[1:]]
    missing = [what for options, shows, what in _NEEDS if shows not in _output([*words, *options])]
    if missing:
        raise Unavailable(f"{program} lacks {', '.join(missing)}: name another one in QEMU_ESP32")
    return words


def _output(words):
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_PROBE_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def unavailable():
    """Why there is no emulated ESP32 here; empty when there is one."""
    try:
        command()
        FIRMWARE.find()
    except Unavailable as e:
        return str(e)
    return ""
