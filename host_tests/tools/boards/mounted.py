"""Finished UF2 images as the ROM bootloader writes them, and littlefs images mounted with MicroPython."""

import json
import struct
import subprocess
import tempfile
from base64 import b64decode, b64encode
from pathlib import Path

from host_tests.absent import interpreter
from tools.setup.common import CHECKOUT

FLASH = 0x1000_0000

# It writes before it reads, so that it reads after an allocation and a commit.
_SCRIPT = """
import gc, json, os, vfs
from binascii import b2a_base64, a2b_base64
from nor import NorFlash

gc.disable()  # each collection would scan the whole flash
with open("work.json") as f:
    work = json.load(f)
flash = NorFlash(os.stat("image")[6] // 4096, 4096, work["prog"] or 256)
with open("image", "rb") as f:
    f.readinto(flash.data)
vfs.mount(vfs.VfsLfs2(flash, progsize=work["prog"]) if work["prog"] else vfs.VfsRom(flash.data), "/flash")
for path, text in work["write"].items():
    with open("/flash" + path, "wb") as f:
        f.write(a2b_base64(text))
found = {}

def walk(folder):
    for entry in os.ilistdir("/flash" + folder):
        path = folder + "/" + entry[0]
        if entry[1] == 0x4000:
            walk(path)
        else:
            with open("/flash" + path, "rb") as f:
                found[path] = b2a_base64(f.read()).decode()

walk("")
print(json.dumps(found))
"""


def mounted(image, prog=32, write=()):
    """Writes the files `write` into the littlefs in `image`, and returns {path: content} of all. `prog`: bytes of one
    program; 0: it is a ROM file system."""
    with tempfile.TemporaryDirectory() as folder:
        texts = {path: b64encode(data).decode() for path, data in dict(write).items()}
        Path(folder, "image").write_bytes(image + b"\xff" * (-len(image) % 4096))
        Path(folder, "work.json").write_text(json.dumps({"prog": prog, "write": texts}))
        done = on_micropython(_SCRIPT, folder, 32 + 2 * (len(image) >> 20))
    return {path: b64decode(text) for path, text in json.loads(done).items()}


def on_micropython(script, folder, megabytes=32):
    """What `script` prints, run in `folder` with so much heap."""
    Path(folder, "script.py").write_text(script)
    command = [*interpreter("micropython-x64").command(f"{megabytes}m"), "script.py"]
    how = {"env": {"MICROPYPATH": f".frozen:{CHECKOUT}/tools/reference/flash"}, "capture_output": True}
    done = subprocess.run(command, cwd=folder, text=True, timeout=480, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def blocks(image):
    """(address, number, total, family, payload) of each block of the finished file."""
    data = image.file()
    assert len(data) % 512 == 0
    for at in range(0, len(data), 512):
        *magic, flags, address, size, number, total, family = struct.unpack_from("<8I", data, at)
        assert magic == [0x0A324655, 0x9E5D5157] and data[at + 508 : at + 512] == b"\x30\x6f\xb1\x0a"
        assert flags & 0x2000 and size == 256
        yield address, number, total, family, data[at + 32 : at + 32 + size]


def booted(image, flash, family):
    """Writes the image into `flash` (a bytearray) as the ROM bootloader does: it erases a sector before the sector's
    first page."""
    erased = set()
    for address, _, _, of, payload in blocks(image):
        if of == family:
            at = address - FLASH
            if at // 4096 not in erased:
                erased.add(at // 4096)
                flash[at // 4096 * 4096 : at // 4096 * 4096 + 4096] = b"\xff" * 4096
            flash[at : at + 256] = payload
    return flash


def file_system(image, flash):
    return bytes(flash[image.start - FLASH : image.start - FLASH + image.size])
