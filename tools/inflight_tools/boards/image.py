"""The image of a bare board as a file."""

import hashlib
import json
from pathlib import Path
from typing import Annotated

from inflight_tools import options
from inflight_tools.boards.images.board_image import make
from inflight_tools.cache import write_private
from inflight_tools.output import failing, show


def main(
    board: options.Board,
    firmware: options.Firmware = None,
    sha256: options.Sha256 = None,
    config: options.Config = options.CONFIG,
    ca: options.Ca = None,
    cert: options.Cert = None,
    key: options.Key = None,
    flash_mb: options.FlashMb = None,
    ota: options.Ota = False,
    romfs: options.Romfs = False,
    out: Annotated[Path | None, options.out("build/inflight-BOARD.bin or .uf2")] = None,
    as_json: options.Json = False,
):
    """Writes the image of a bare board to a file, with the pinned MicroPython unless --firmware names another. It
    contains the secrets of the configuration: only its owner may read it. --json prints path, size and SHA-256."""
    with failing():
        made = make(board, firmware, sha256, config, ca, cert, key, flash_mb, ota, romfs)
        target = out or Path("build") / f"inflight-{board}{made.suffix}"
        content = made.file()
        write_private(target, content)
    if as_json:
        found = {
            "board": board,
            "path": str(target),
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        print(json.dumps(found))
        return
    for line in made.describe():
        show(line)
    show(f"{target}: {len(content):,} bytes")
