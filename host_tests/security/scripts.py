"""Clients as processes on each interpreter."""

from pathlib import Path

from host_tests.processes import running

SCRIPTS = Path(__file__).parent / "device_scripts"
LIMIT_S = 240


def output_of(found, script, *words, **options):
    """Runs the script, and returns its output."""
    with running(found, SCRIPTS / script, *words, **options) as process:
        return process.communicate(timeout=LIMIT_S)[0]


def is_refused(output, broker):
    """Asserts that the client refused to connect, and sent nothing to the broker. Returns `output`."""
    assert output.startswith("refused: "), output
    assert not broker.arrived
    assert not any(connection.packets for connection in broker.connections)
    return output
