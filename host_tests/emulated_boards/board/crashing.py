# main.py of a board whose application ends with an exception at each start, when it publishes what it has measured.

import board
import harness


def accepted(seq, qos, topic):
    if topic == "telemetry" and qos == 2:  # safe mode, which dates earlier readings, has the default
        raise RuntimeError("a broken driver")


harness.note(1)  # a start
board.accepted = accepted
__import__("start").main()
