"""The image of a bare board as a file."""

import hashlib
import json
from pathlib import Path
from typing import Annotated

from inflight_tools import options
from inflight_tools.boards.images.board_image import make
from inflight_tools.cache import write_private
from inflight_tools.output import failing, show


@options.spread
def main(
    image: options.ImageOptions,
    out: Annotated[Path | None, options.out("build/inflight-BOARD.bin or .uf2")] = None,
    as_json: options.Json = False,
):
    """Writes the image of a bare board to a file, with the pinned MicroPython unless --firmware names another. It
    contains the secrets of the configuration: only its owner may read it. --json prints path, size and SHA-256."""
    with failing():
        made = make(**vars(image))
        target = out or Path("build") / f"inflight-{image.board}{made.suffix}"
        content = made.file()
        write_private(target, content)
    if as_json:
        found = {
            "board": image.board,
            "path": str(target),
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        print(json.dumps(found))
        return
    for line in made.describe():
        show(line)
    show(f"{target}: {len(content):,} bytes")
