"""The ROM file system of newer firmware: modules in it run in place, and their code needs no heap."""

import contextlib
import io
import tempfile
from pathlib import Path
from types import SimpleNamespace

from mpremote.commands import do_romfs
from mpremote.romfs import make_romfs
from mpremote.transport import TransportError

from inflight_tools.boards.build.loading import PACKAGE
from inflight_tools.boards.device.link import DeviceError
from inflight_tools.cache import write_below

LIB = "/rom/lib"  # MicroPython mounts the image at /rom, and imports modules from here
NO_ROM = "leave --romfs out, or use a firmware built with space for it (docs/boards.md); no stock one up to 1.26 has it"

_SIZE = """
try:
 import vfs
 d = vfs.rom_ioctl(2, 0) if vfs.rom_ioctl(1) > 0 else -1
except (ImportError, AttributeError):
 d = -1
print(d if isinstance(d, int) else d.ioctl(4, 0) * d.ioctl(5, 0) if hasattr(d, 'ioctl') else len(d))
"""
# As MicroPython does at the next start.
_MOUNT = """
import sys, vfs
vfs.mount(vfs.VfsRom(vfs.rom_ioctl(2, 0)), '/rom')
if '/rom/lib' not in sys.path: sys.path.append('/rom/lib')
"""


def image(files):
    """A ROM image of `files`, {path below /rom: content}."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        write_below(Path(folder), {path.lstrip("/"): content for path, content in files.items()})
        return make_romfs(folder, mpy_cross=False)


def size(link):
    """Bytes of the board's ROM file system. DeviceError if it has none."""
    found = int(link.run(_SIZE))
    if found <= 0:
        raise DeviceError(f"the board's firmware has no ROM file system: {NO_ROM}")
    return found


def fitting(modules, available):
    """Those of `modules`, {path on the device: content}, that go into a ROM file system of `available` bytes: all,
    or the library alone. ValueError, one line, if not even that fits."""
    own = {path: content for path, content in modules.items() if path.startswith(f"/lib/{PACKAGE}/")}
    for chosen in filter(None, (modules, own)):
        needed = len(image(chosen))
        if needed <= available:
            return chosen
    raise ValueError(f"{needed} bytes do not fit the ROM file system, {available} bytes: leave --romfs out")


def write(link, content):
    """Writes the image with mpremote, and mounts it. Raises DeviceError."""
    with tempfile.NamedTemporaryFile(suffix=".romfs") as file, contextlib.redirect_stdout(io.StringIO()):
        file.write(content)
        file.flush()
        state = SimpleNamespace(transport=link.transport, ensure_raw_repl=lambda: None, did_action=lambda: None)
        try:
            do_romfs(state, SimpleNamespace(command=["deploy"], path=file.name, partition=0, mpy=False))
        except (TransportError, OSError) as e:
            raise DeviceError(f"the ROM image was not written ({type(e).__name__}): run it again") from None
    link.run(_MOUNT)
