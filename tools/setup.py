"""Sets everything up: a virtual environment in .venv, interpreters and a broker in the cache; repeat it at will.

Nothing of the system is changed and no root is needed. `INFLIGHT_CACHE` chooses the cache (default ~/.cache/inflight),
`INFLIGHT_DEBIAN_MIRROR` the Debian mirror (default: the one that apt is configured with). `python3 tools/setup.py
pipeline` adds Spark, and Java where the system has none."""

import sys
import time

if sys.version_info < (3, 10):  # noqa: UP036 (an older one should hear why)
    sys.exit("setup: Python 3.10 or newer is needed, this is " + sys.version.split()[0])

from provision import environment, programs, spark
from provision.common import CHECKOUT, Trouble, cache_dir, exclusive, say


def prepare(pipeline):
    """True when there was something to do."""
    with exclusive(cache_dir()), exclusive(CHECKOUT):
        workshop = programs.Workshop()
        made = environment.ensure(workshop)
        made = programs.ensure(workshop) or made
        return (pipeline and spark.ensure()) or made


def main():
    began = time.monotonic()
    try:
        made = prepare(sys.argv[1:] == ["pipeline"])
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
