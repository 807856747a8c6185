"""The image of a bare board as a file."""

import hashlib
import json
from pathlib import Path
from typing import Annotated

from inflight_tools import options
from inflight_tools.boards import own
from inflight_tools.boards.images.board_image import WITHOUT, make
from inflight_tools.boards.images.outage import bridged_s, told
from inflight_tools.cache import write_private
from inflight_tools.output import failing, show
from inflight_tools.settings import configured


def main(
    image: options.ImageOptions,
    out: Annotated[Path | None, options.out("file of the image", "build/inflight-BOARD.bin or .uf2")] = None,
    as_json: options.Json = False,
):
    """Writes the image of a bare board to a file, with the pinned MicroPython unless --firmware names another. It
    contains the secrets of the configuration: only its owner may read it. Without a configuration the board opens its
    set-up. --json prints path, size, SHA-256, and how many seconds of outage its journal bridges."""
    with failing():
        config = image.configuration
        made = make(**image.given())
        target = out or Path("build") / f"inflight-{image.board}{made.suffix}"
        content = made.file()
        write_private(target, content)
        outage_s = bridged_s(configured(config.read_bytes() if config else None), made.journal_kb)
    if as_json:
        found = {
            "board": image.board,
            "path": str(target),
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "outage_s": outage_s,
        }
        print(json.dumps(found))
        return
    if not config:
        show(WITHOUT)
    if app := own.folder_of(image.app, config):
        show(f"modules of your own: {app}")
    for line in made.describe():
        show(line)
    show(
        f"without a network its journal, {made.journal_kb} KiB, is full after {told(outage_s)}: journal_kb changes that"
    )
    show(f"{target}: {len(content):,} bytes")
