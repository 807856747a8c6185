# main.py of a board that notes what publish() has accepted.

__import__("launch").main()

import board  # noqa: E402 (of the application)
import harness  # noqa: E402


def accepted(seq, qos, topic):
    harness.note(seq << 2 | qos)


board.accepted = accepted
__import__("start").main()
