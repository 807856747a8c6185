"""The files in a littlefs of MicroPython's, read here."""

import posixpath

from littlefs import LittleFS, UserContext

from inflight_tools.boards.images.filesystem import BLOCK


def unpack(volume, prog):
    """Returns {absolute path: bytes} of all files in the bytes `volume`, which is programmed `prog` bytes at a time."""
    context = UserContext(len(volume))
    context.buffer[:] = volume
    blocks = len(volume) // BLOCK
    fs = LittleFS(context, block_size=BLOCK, block_count=blocks, read_size=32, prog_size=prog, cache_size=BLOCK)
    found = {}
    for folder, _, names in fs.walk("/"):
        for name in names:
            path = posixpath.join(folder, name)
            with fs.open(path, "rb") as f:
                found[path] = f.read()
    return found
