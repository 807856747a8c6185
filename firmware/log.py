# The last lines of the log, for the command `log`; from a level on, they are also published.

from inflight.compat import const, ticks_diff, ticks_ms
from inflight.errors import printable
from telemetry import describe

LEVELS = ("info", "error", "off")
INFO = const(0)
ERROR = const(1)
ALL = const(400)  # characters
_LINE = const(100)

text = ""
level = 2  # lines of this level or a higher one are published
waiting = False  # such a line has not been published yet


def set_level(name):
    """Lines of the level of this name, or of a higher one, are published from now on."""
    global level
    level = LEVELS.index(name)


def say(words, at=ERROR):
    """Adds a line: seconds since the board started, level, words. Errors are printed as well."""
    global text, waiting
    words = printable(words)
    if at:
        print("inflight:", words)
    text = (text + "%d %s %s\n" % (ticks_diff(ticks_ms(), 0) // 1000, LEVELS[at], words[:_LINE]))[-ALL:]
    waiting = waiting or at >= level


def report(error):
    """Adds the line of an exception; None: nothing happened."""
    if error:
        say(describe(error))
