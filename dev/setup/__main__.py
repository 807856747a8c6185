"""Sets everything up: a virtual environment in .venv, interpreters and a broker in the cache; repeat it at will.

Nothing of the system is changed and no root is needed. `INFLIGHT_CACHE` chooses the cache (default ~/.cache/inflight),
`INFLIGHT_DEBIAN_MIRROR` the Debian mirror (default: the one that apt is configured with). With words after it,
`python3 -m dev.setup` makes more or less of that:
- boards: the virtual environment alone, which is all that the commands for boards need; also on macOS
- pipeline: also Spark, and Java where the system has none
- tests: also what only tests need: Chromium, the newest MicroPython
- firmware: also the firmware images of boards, if their site can be reached
- brokers: also more brokers to test with
- fuzz: also a fuzzer"""

import sys
import time
from functools import partial

if sys.version_info < (3, 10):  # noqa: UP036 (an older one should hear why)
    sys.exit("setup: Python 3.10 or newer is needed, this is " + sys.version.split()[0])

from dev.setup import brokers, environment, firmware, fuzz, programs, spark
from dev.setup.common import CHECKOUT, Trouble, exclusive, say
from inflight_tools.cache import cache_dir

BOARDS = "boards"  # the virtual environment alone
MORE = {
    "pipeline": spark.ensure,
    "tests": partial(programs.ensure, programs=programs.TESTS),
    "firmware": firmware.ensure,
    "brokers": brokers.ensure,
    "fuzz": fuzz.ensure,
}


def prepare(names):
    """True when there was something to do. names: of MORE, or BOARDS alone."""
    with exclusive(cache_dir()), exclusive(CHECKOUT):
        made = environment.ensure()
        made = environment.link() or made
        if names == [BOARDS]:
            return made
        workshop = programs.Workshop()
        made = programs.ensure(workshop) or made
        for name in names:
            made = MORE[name](workshop) or made
        return made


def main():
    began = time.monotonic()
    names = sys.argv[1:]
    unknown = set(names) - set(MORE)
    if unknown and names != [BOARDS]:
        say(f"error: {', '.join(sorted(unknown))}: there is {BOARDS} alone, or any of {', '.join(MORE)}")
        return 1
    try:
        made = prepare(names)
    except Trouble as error:
        say(f"error: {error}")
        return 1
    except OSError as error:  # no space, no permission
        say(f"error: {error.strerror or error}: {error.filename or cache_dir()}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; the next run goes on from here")
        return 130
    if made:
        say(f"ready after {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
