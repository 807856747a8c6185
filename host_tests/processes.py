"""Runs scripts as processes on each interpreter; ends what a test has started."""

import contextlib
import subprocess
import sys

from tools.runtimes import device_run
from tools.setup.common import CHECKOUT

INFLIGHT = (sys.executable, "-u", "-m", "inflight_tools")  # the command `inflight` of this checkout


@contextlib.contextmanager
def running(found, script, *words, heap=None, lib=None):
    """Runs the script (a Path) on a runtime, as a process whose output can be read line by line."""
    process = subprocess.Popen(
        [*found.command(heap), str(script), *map(str, words)],
        cwd=CHECKOUT,
        env=device_run.environment(found, script, lib),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def started(start, end):
    """Yields a function that calls start(...), and returns the result. In the end end(result) is called for each."""
    with contextlib.ExitStack() as stack:

        def call(*args, **options):
            result = start(*args, **options)
            stack.callback(end, result)
            return result

        yield call


class Killed(BaseException):
    """As if the process was killed."""
