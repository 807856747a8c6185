"""The asyncio client on every available MicroPython: its features and its heap use."""

from pathlib import Path

import pytest

from host_tests.absent import interpreter
from host_tests.broker import Automatic
from host_tests.processes import running
from tools.runtimes import device_run

RUNTIMES = "micropython-x86"
MORE_RUNTIMES = "cpython micropython-x64"
SCRIPTS = Path(__file__).parent / "device_scripts"
LIMIT_S = 240


def test_everything(runtime, mosquitto):
    """With mosquitto, which is restarted meanwhile."""
    broker = mosquitto()
    with running(runtime, SCRIPTS / "aio_smoke.py", broker.port, heap="600k") as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line == "RESTART\n":
                broker.restart()
        assert process.wait(LIMIT_S) == 0, "".join(lines)
        assert lines[-1] == "DONE\n"


class Echo(Automatic):
    """Answers each message on "ask" with one of QoS n, where n is the length of its payload."""

    def publish_received(self, p):
        super().publish_received(p)
        if p.topic == "ask":
            self.give("t", bytes(64), len(p.payload))


@pytest.mark.parametrize("name", ["micropython-x86", "micropython-armhf"])
def test_heap(name, capsys):
    """As deployed, on 32 bits: publish() allocates no more than awaiting an empty coroutine."""
    found = interpreter(name)
    with (
        device_run.compiled() as lib,
        Echo() as broker,
        running(found, SCRIPTS / "aio_heap.py", broker.port, heap="2m", lib=lib) as process,
    ):
        output = process.communicate(timeout=LIMIT_S)[0]
        assert process.returncode == 0, output
    figures = {tuple(line.split()[:2]): float(line.split()[2]) for line in output.splitlines()}
    with capsys.disabled():
        print(f"\n{name}, bytes of heap:")
        for (what, qos), bytes_ in figures.items():
            print(f"  {what}, QoS {qos}: {bytes_:.0f}")
    for qos in "012":
        assert figures["publish", qos] == figures["await", qos]
