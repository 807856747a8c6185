"""What of the application a firmware has frozen in, and how tools can tell.

`inflight board freeze` freezes one module more, MODULE: a sentence that says which library and application stand beside
it. It is in the firmware as it is written, so it is found in an image, and a board that runs tells it when asked."""

import hashlib
import json
import re
from dataclasses import dataclass

import inflight
from inflight_tools.boards.build import bundle
from inflight_tools.boards.build.loading import PACKAGE

MODULE = "inflight_frozen"
_SAID = re.compile(r"Inflight (\S+) frozen: library ([0-9a-f]{16})(?:, application for (\w+) ([0-9a-f]{16}))?;")
# How a firmware lists modules that it has frozen in, of the library and of the application.
_LISTED = (b"\0inflight/__init__.py\0", b"\0codes.py\0")
_AGAIN = "build it again with what `inflight board freeze` writes, or take a stock firmware"


@dataclass(frozen=True)
class Frozen:
    """What a firmware has: the library whose sources have the digest `library`, and, unless `board` is empty, the
    application for that board folder. `version`: of Inflight."""

    version: str
    library: str
    board: str = ""
    application: str = ""

    def __str__(self):
        more = f", application for {self.board} {self.application}" if self.board else ""
        return f"Inflight {self.version} frozen: library {self.library}{more};"

    @property
    def what(self):
        return "application" if self.board else "library"

    def left(self, files, board):
        """Those of `files`, {path on the device: content} of the application for the folder `board`, that are not
        frozen. ValueError, one line, if what is frozen is of another release or board."""
        if self.board and self.board != board:
            raise ValueError(f"the firmware has the application for {self.board} frozen in, not for {board}: {_AGAIN}")
        texts = bundle.modules(board)
        mine = of(texts, self.board)
        if (self.library, self.application) != (mine.library, mine.application):
            raise ValueError(
                f"the firmware has another release of Inflight frozen in ({self}), these tools are of another one "
                f"({mine}): {_AGAIN}"
            )
        if not self.board:
            return {path: code for path, code in files.items() if not path.startswith(f"/lib/{PACKAGE}/")}
        # One's own modules.
        lib = "/lib/"
        frozen = {f"{lib}{place}.mpy" for place in texts}
        return {path: code for path, code in files.items() if path.startswith(lib) and path not in frozen}


def of(texts, board=""):
    """The Frozen of the library in `texts`, the result of bundle.modules(); with `board` of its application, too."""
    library = {place: text for place, text in texts.items() if place.startswith(f"{PACKAGE}/")}
    # The day in `built` is that of the build.
    rest = {place: text for place, text in texts.items() if place not in library and place != "built"}
    return Frozen(inflight.__version__, _digest(library), board, _digest(rest) if board else "")


def _digest(texts):
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()[:16]


def said(text):
    """The Frozen that a board tells in `text`. ValueError, one line, if that is none."""
    found = _SAID.search(text)
    if not found:
        raise ValueError(
            f"the firmware has modules of Inflight frozen in, and does not tell of which release: {_AGAIN}"
        )
    return Frozen(*(word or "" for word in found.groups()))


def in_firmware(code):
    """The Frozen of the firmware `code` (bytes), None if it has nothing frozen in. ValueError, one line, if it cannot
    be told."""
    found = {said(text[0]) for text in _SAID.finditer(code.decode("latin-1"))}
    if len(found) > 1:
        raise ValueError(f"the firmware tells of several releases that are frozen in: {_AGAIN}")
    if found:
        return found.pop()
    return said("") if any(name in code for name in _LISTED) else None
