"""Makes the virtual environment .venv, and installs interpreters and a broker into the cache. It may be repeated.

It does not change the system and needs no root. `INFLIGHT_CACHE` is the cache (default ~/.cache/inflight).
`INFLIGHT_DEBIAN_MIRROR` is the Debian mirror (default: the one in apt's configuration). Arguments of
`python3 -m tools.setup`:
- boards: only the virtual environment, which is enough for the commands for boards; also on macOS
- pipeline: also Spark, and Java if the system has none
- tests: also what only tests need: Chromium, the newest MicroPython, Prometheus's promtool
- web-tools: also what tests of pages need: the page that installs boards, and axe-core, if npm can fetch them
- firmware: also the firmware images of boards, if their site can be reached
- brokers: also more brokers for tests
- fuzz: also a fuzzer
- home-assistant: also Home Assistant, for the check of announcements
- object-storage: also a stand-in for S3, for tests"""

import sys
import time
from functools import partial

if sys.version_info < (3, 10):  # noqa: UP036 (older ones need the message)
    sys.exit("setup: Python 3.10 or newer is needed, this is " + sys.version.split()[0])

from inflight_tools.cache import cache_dir
from tools.setup import brokers, environment, firmware, fuzz, home_assistant, object_storage, programs, spark, web_tools
from tools.setup.common import CHECKOUT, SetupError, exclusive, say

BOARDS = "boards"  # only the virtual environment
MORE: dict = {  # name: a function of an Installer, which returns True if it has made something
    "pipeline": spark.ensure,
    "tests": partial(programs.ensure, programs=programs.TESTS),
    "web-tools": web_tools.ensure,
    "firmware": firmware.ensure,
    "brokers": brokers.ensure,
    "fuzz": fuzz.ensure,
    "home-assistant": home_assistant.ensure,
    "object-storage": object_storage.ensure,
}


def prepare(names):
    """Returns True if there was something to do. names: keys of MORE, or BOARDS alone."""
    with exclusive(cache_dir()), exclusive(CHECKOUT):
        made = environment.ensure()
        made = environment.link() or made
        if names == [BOARDS]:
            return made
        installer = programs.Installer()
        made = programs.ensure(installer) or made
        for name in names:
            made = MORE[name](installer) or made
        return made


def main():
    start = time.monotonic()
    names = sys.argv[1:]
    unknown = set(names) - set(MORE)
    if unknown and names != [BOARDS]:
        say(f"error: {', '.join(sorted(unknown))}: there is {BOARDS} alone, or any of {', '.join(MORE)}")
        return 1
    try:
        made = prepare(names)
    except SetupError as error:
        say(f"error: {error}")
        return 1
    except OSError as error:  # no space, no permission
        say(f"error: {error.strerror or error}: {error.filename or cache_dir()}")
        return 1
    except KeyboardInterrupt:
        say("interrupted; the next run continues")
        return 130
    if made:
        say(f"ready after {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
