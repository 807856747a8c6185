"""Translates what a board says where its program failed: its compiled code has short names, and numbers no lines."""

import sys

from inflight_tools.boards.build.bundle import translate
from inflight_tools.output import show
from inflight_tools.visible import visible


def main():
    """Shows a traceback of a board, or the `at` of a health message, with the names of the source: paste it, then press
    Ctrl-D. The board has to have the library, or the application, of this release."""
    for line in sys.stdin.read().splitlines():
        show(visible(translate(line)))
