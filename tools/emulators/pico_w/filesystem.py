"""The file system of the firmware, made and read here."""

from inflight_tools.boards.images.filesystem import BLOCK, build
from tools.emulators import littlefs_files

START = 0x12C000  # where the firmware has it in flash
SIZE = 212 * BLOCK
PAGE = 256


def pack(files):
    """Returns what flash holds after a file system with `files`, {absolute path: bytes}, was written to a new board:
    {address: bytes}."""
    return {START + offset: content for offset, content in build(files, SIZE, PAGE)}


def unpack(flash):
    """Returns {absolute path: bytes} of all files in the flash."""
    return littlefs_files.unpack(flash[START : START + SIZE], PAGE)
