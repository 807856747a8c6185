"""Clients as processes on each interpreter."""

import contextlib
import subprocess
from pathlib import Path

import device_run

SCRIPTS = Path(__file__).parent / "device_scripts"
LIMIT_S = 100


@contextlib.contextmanager
def running(found, script, *words, heap=None, lib=device_run.LIB):
    """The script on a runtime, as a process whose output can be read line by line."""
    process = subprocess.Popen(
        [*found.command(heap), str(SCRIPTS / script), *map(str, words)],
        cwd=device_run.CHECKOUT,
        env=device_run.environment(lib, SCRIPTS / script),
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


def said(found, script, *words, **options):
    """Everything that the script prints."""
    with running(found, script, *words, **options) as process:
        return process.communicate(timeout=LIMIT_S)[0]


def is_refused(told, broker):
    """The client refused, and said nothing to the broker. Returns what it told."""
    assert told.startswith("refused: "), told
    assert not broker.arrived
    assert not any(connection.packets for connection in broker.connections)
    return told
