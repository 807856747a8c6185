"""The library as it is deployed, on MicroPython's unix port."""

import subprocess
from types import SimpleNamespace

import pytest
from serial.tools import list_ports

from host_tests.absent import interpreter
from inflight_tools.boards import connected
from tools.runtimes import device_run


@pytest.fixture(scope="session")
def micropython():
    """micropython(code, path=None): what MicroPython prints, with the library as it is deployed, or with the modules in
    the folder `path`."""
    found = interpreter("micropython-x64")
    with device_run.compiled() as lib:

        def run(code, path=lib):
            command, env = [*found.command(), "-c", code], {"MICROPYPATH": f".frozen:{path}"}
            done = subprocess.run(command, env=env, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
            return done.stdout

        run.lib = lib
        yield run


@pytest.fixture
def connect(monkeypatch):
    """connect((port, vendor), ..., drive=None): from now on these are the ports of USB, and the boot drive."""

    def connect(*ports, drive=None):
        found = [SimpleNamespace(device=name, vid=vendor) for name, vendor in (*ports, ("/dev/ttyS0", None))]
        monkeypatch.setattr(list_ports, "comports", lambda: found)
        monkeypatch.setattr(connected, "mounted", lambda label: drive if label == "RPI-RP2" else None)

    connect()
    return connect
