"""Clients as processes on each interpreter."""

from pathlib import Path

from host_tests.processes import running

SCRIPTS = Path(__file__).parent / "device_scripts"
LIMIT_S = 100


def said(found, script, *words, **options):
    """Everything that the script prints."""
    with running(found, SCRIPTS / script, *words, **options) as process:
        return process.communicate(timeout=LIMIT_S)[0]


def is_refused(told, broker):
    """The client refused, and said nothing to the broker. Returns what it told."""
    assert told.startswith("refused: "), told
    assert not broker.arrived
    assert not any(connection.packets for connection in broker.connections)
    return told
