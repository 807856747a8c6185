"""What the client costs on 32-bit MicroPython: what is exact is held to here, the rest `make figures` tells."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from figures import measure
from fleet.sensors import build
from runtimes import program, runtime


def _available(name):
    try:
        program("mosquitto")
    except RuntimeError as e:
        pytest.skip(str(e))
    found = runtime(name)
    if found.reason:
        pytest.skip(f"{name}: {found.reason}")
    return found


@pytest.mark.parametrize("name", ["micropython-x86", "micropython-armhf"])
def test_steady_state_allocates_nothing(name, tmp_path):
    """200 publishes, and 200 receipts by a handler, with the journal in a file: not one byte, at any QoS."""
    interpreter = _available(name)
    build(tmp_path / "code")
    found = measure(interpreter, tmp_path)
    for qos in range(3):
        assert found[f"publish_{qos}_bytes"] == 0
        assert found[f"receive_{qos}_bytes"] == 0
    # What a connected client holds beside its buffer does not creep up unnoticed.
    assert found["client"] <= 2200
    assert found["import_all"] <= 44_000
