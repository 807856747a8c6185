"""A release: the application for one board, as an image and a signed announcement. docs/updates.md has the formats."""

import hashlib
import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from inflight_tools import options
from inflight_tools.boards import own, slots
from inflight_tools.boards.build import bundle, native
from inflight_tools.boards.images import variants
from inflight_tools.cache import write_atomic
from inflight_tools.output import WrongArgument, failing
from inflight_tools.settings import is_public_key
from inflight_tools.update import keys

SIGNATURE = keys.BITS // 8
SUFFIX = ".release"
JOURNAL = 2  # version of the journal's format
_MICROPYTHON = [[1, 22], [2, 0]]  # from, to before
_IN_BLOCK = 4096 - 32  # bytes of a file in a block of littlefs, which has pointers to others there
_NUMBER_MAX = 2**32 - 1
_PART, _PARTS = 65_536, 32  # bytes of a part of firmware at least, parts at most: the announcement has 2,048 bytes
_SHORT = 32  # hexadecimal digits of the SHA-256 of a part
_CHIP = 12  # where firmware for an ESP32 has the number of its chip, 2 bytes
_MAGIC = b"inflight release 1\n"


@dataclass(frozen=True)
class Release:
    """The announcement (bytes: a JSON object and its signature), and the image that it describes."""

    announcement: bytes
    image: bytes

    @property
    def fields(self):
        return json.loads(self.announcement[:-SIGNATURE])

    @property
    def number(self):
        return self.fields["release"]

    @property
    def digest(self):
        """What tells it from others of that number, as its announcement has it; None: it announces a withdrawal."""
        return self.fields.get("sha256")

    def pack(self):
        """The release as a file."""
        return _MAGIC + struct.pack("<I", len(self.announcement)) + self.announcement + self.image


def unpack(data):
    """The Release in the bytes of a file. ValueError."""
    at = len(_MAGIC) + 4
    if data[: len(_MAGIC)] != _MAGIC:
        raise ValueError("not a release: `inflight release` makes one")
    size = int.from_bytes(data[len(_MAGIC) : at], "little")
    release = Release(data[at : at + size], data[at + size :])
    whole = SIGNATURE < size == len(release.announcement)
    if not whole or len(release.image) != release.fields["size"] or not _is_right(release):
        raise ValueError("incomplete or changed: copy it again")
    return release


def _is_right(release):
    """True if the image is what the announcement says: parts that a device finds damaged were changed on their way."""
    fields, image = release.fields, release.image
    index = image[: fields.get("index", len(image))]
    if hashlib.sha256(index).hexdigest() != fields["sha256"]:
        return False
    return "index" not in fields or slots.is_right(index, image[len(index) :])


def load(path):
    """The Release in the file `path`. ValueError, in one line."""
    if not path.is_file():
        raise ValueError(f"no file {path}: `inflight release` makes one")
    try:
        return unpack(path.read_bytes())
    except ValueError as e:
        raise ValueError(f"{path}: {e}") from None


def make(files, key, number, board, trial_s=300, mpy=6):
    """The Release with `files`, {path in the slot: content}, signed by private key `key`. number: higher than the
    number of each earlier release; board: name of its folder; trial_s: for how long it has to run before it is good;
    mpy: what the device has to import, native.number()."""
    if longest := [path for path in files if len(path.encode()) > 255]:
        raise ValueError(f"{longest[0]}: the path is too long")
    index = slots.index_of(files)
    image = index + b"".join(files.values())
    fields = {
        "index": len(index),
        "sha256": hashlib.sha256(index).hexdigest(),
        "blocks": math.ceil(len(image) / _IN_BLOCK),
    }
    return signed(image, fields, key, number, board, trial_s, mpy)


def make_firmware(chosen, firmware, key, number, trial_s=300):
    """The Release of `firmware`, MicroPython's .bin for Variant `chosen`, an ESP32; the others as for make()."""
    from inflight_tools.boards.images.esp32 import application as application_of

    if chosen.image != "esp32":
        raise ValueError(f"the firmware of a {chosen.title} comes by cable only: --firmware is for an ESP32")
    image = application_of(chosen, firmware)
    fields = {"chip": int.from_bytes(image[_CHIP : _CHIP + 2], "little"), **parts(image)}
    return signed(image, fields, key, number, chosen.folder, trial_s, 6)


def parts(image):
    """The digests of firmware and of its parts: a device verifies each when it has come."""
    size = _PART * math.ceil(len(image) / (_PART * _PARTS))
    digests = [hashlib.sha256(image[at : at + size]).hexdigest()[:_SHORT] for at in range(0, len(image), size)]
    return {"sha256": hashlib.sha256(image).hexdigest(), "part": size, "parts": digests}


def signed(image, own, key, number, board, trial_s, mpy):
    fields = {
        "release": number,
        "board": board,
        "micropython": _MICROPYTHON,
        "mpy": mpy,
        "journal": JOURNAL,
        **own,
        "size": len(image),
        "trial_s": trial_s,
    }
    body = json.dumps(fields, separators=(",", ":")).encode()
    return Release(body + keys.sign(key, body), image)


def withdrawn(release, key):
    """What announces, signed by private key `key`, that a Release is not to be installed any more."""
    body = json.dumps({"release": release.number, "withdrawn": True}, separators=(",", ":")).encode()
    return Release(body + keys.sign(key, body), release.image)


def application(board, number, processor="", app=None):
    """{path in the slot: content} of the application for the board in folder `board`, with the modules of one's own in
    folder `app`; its status tells release `number`. processor: what it has machine code for."""
    return slots.needed(bundle.files(board, number, processor) | own.released(own.files(app, board)))


def main(
    board: options.AnyBoard,
    number: Annotated[int, typer.Option(help="number of the release, higher than the number of each earlier release")],
    signing_key: options.SigningKey = keys.DEFAULT,
    app: options.AppHere = None,
    firmware: Annotated[
        Path | None, typer.Option(help="ESP32: a .bin of MicroPython, which becomes the release")
    ] = None,
    trial: Annotated[int, typer.Option(min=0, max=3600, help="seconds that it has to run before it is good")] = 300,
    accept: Annotated[
        list[str] | None,
        typer.Option(help="public key that devices accept from this release on, in place of theirs; two at most"),
    ] = None,
    bytecode: options.Bytecode = False,
    out: Annotated[Path | None, options.out("file of the release", "build/BOARD-NUMBER.release")] = None,
    as_json: options.Json = False,
):
    """Builds the application for a board, signs it, and writes it to a file for `inflight rollout`. With --firmware, a
    .bin file for an ESP32, the release is that firmware instead. --json prints what the announcement says."""
    with failing():
        private = keys.load(signing_key)
        _check(number, accept or [])
        if firmware:
            release, what = _firmware(board, number, private, firmware, trial, accept)
        else:
            processor = "" if bytecode else variants.processor(board)
            release, what = _application(board, number, private, trial, accept, processor, own.folder_of(app))
        target = out or Path("build") / f"{board}-{number}{SUFFIX}"
        write_atomic(target, release.pack())
    if as_json:
        print(json.dumps(release.fields | {"path": str(target)}))
    else:
        typer.echo(f"{target}: release {number} for {release.fields['board']}, {what}, {len(release.image):,} bytes")


def _application(board, number, key, trial_s, accept, processor, app):
    name = variants.board(board).folder
    files = application(name, number, processor, app)
    if accept:
        files["keys"] = json.dumps(accept).encode()
    what = f"{len(files)} files, machine code for {processor}" if processor else f"{len(files)} files"
    return make(files, key, number, name, trial_s, native.number(processor)), what


def _firmware(board, number, key, path, trial_s, accept):
    if accept:
        raise WrongArgument("--accept goes with a release of the application: firmware brings no keys")
    return make_firmware(variants.variant(board), path.read_bytes(), key, number, trial_s), f"firmware {path.name}"


def _check(number, accept):
    if not 0 < number <= _NUMBER_MAX:
        raise WrongArgument(f"--number {number}: write a number from 1 to {_NUMBER_MAX}")
    if len(accept) > 2 or not all(map(is_public_key, accept)):
        raise WrongArgument("--accept: one or two public keys, as `inflight keys` prints them between quotes")
