"""Firmware images that emulated boards run: MicroPython, exactly as its makers publish it."""

import hashlib

from inflight_tools.cache import find_firmware, firmware_folders


class Unavailable(RuntimeError):
    """There is no emulator, or no image, to run; the text says why, and what to do."""


class FirmwareImage:
    """The image `name` for the board that people call `board`."""

    def __init__(self, board, name, sha256):
        self.name = name
        self.sha256 = sha256
        self._board = board
        self._found = {}  # checked once each

    def find(self):
        """Returns the path of the image: in INFLIGHT_FIRMWARE, a folder, or in the caches. A copy that was cut short
        would run, and hang, so every byte is checked. Raises Unavailable."""
        path = find_firmware(self.name)
        advice = f"put {self.name} of micropython.org into a folder, and name that in INFLIGHT_FIRMWARE"
        if not path:
            folders = ", ".join(map(str, firmware_folders()))
            raise Unavailable(f"no {self._board} firmware in {folders}: {advice}")
        if path not in self._found:
            self._found[path] = hashlib.sha256(path.read_bytes()).hexdigest() == self.sha256
        if not self._found[path]:
            raise Unavailable(f"{path} is not {self.name}, or not all of it: {advice}")
        return path
