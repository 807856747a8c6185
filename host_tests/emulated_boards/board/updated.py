# main.py of a board that is updated: as deployed, and it notes which application starts, and what publish() accepted.

__import__("launch").main()

import sys  # noqa: E402

import harness  # noqa: E402

_STARTS = 0x3FFFFFF0

harness.note(_STARTS + ("", "/a", "/b").index(sys.path[0]))

import board  # noqa: E402 (of the slot that starts)


def accepted(seq, qos, topic):
    harness.note(seq << 2 | qos)


board.accepted = accepted
__import__("start").main()
