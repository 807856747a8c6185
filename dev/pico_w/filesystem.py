"""The file system of the firmware, made and read here."""

import posixpath

from littlefs import LittleFS, UserContext

from inflight_tools.boards.images.filesystem import BLOCK, build

START = 0x12C000  # where the firmware has it in flash
SIZE = 212 * BLOCK
_PAGE = 256


def pack(files):
    """Returns what flash holds after a file system with `files`, {absolute path: bytes}, was written to a new board:
    {address: bytes}."""
    return {START + offset: content for offset, content in build(files, SIZE, _PAGE)}


def unpack(flash):
    """Returns {absolute path: bytes} of all files in the flash."""
    context = UserContext(SIZE)
    context.buffer[:] = flash[START : START + SIZE]
    volume = LittleFS(context, block_size=BLOCK, block_count=SIZE // BLOCK, read_size=32, prog_size=_PAGE)
    found = {}
    for folder, _, names in volume.walk("/"):
        for name in names:
            path = posixpath.join(folder, name)
            with volume.open(path, "rb") as f:
                found[path] = f.read()
    return found
