"""An RP2040 has 8 KB of stack, and MicroPython's unix port ten times as much. The application has to do with that."""

import re
from pathlib import Path

import pytest

from host_tests.thorough import more
from tools.peers.subscriber import Subscriber
from tools.runtimes import device_run

RUNTIMES = "micropython-armhf"
SCRIPT = Path(__file__).parent / "device_scripts/small_stack.py"
NOR = Path(__file__).parents[2] / "tools/reference/flash"
# Of 8,192 bytes; the rest is for functions in C, and for interrupts, in which lwIP and the radio's driver run.
MOST = 7_200


@pytest.mark.parametrize("machine", ["micropython-armhf"], indirect=True)
@pytest.mark.parametrize("level", [*more(4), 5])
def test_stack(machine, mosquitto, level):
    """Commands, a broker that forgets its sessions while messages wait, and a journal that has to move records."""
    broker = mosquitto()
    machine.environment["MICROPYPATH"] = f"{device_run.application()}:{NOR}"
    machine.configure(port=broker.port, qos=2, protocol_level=level, actuators=[{"driver": "led", "pin": 1}])
    with Subscriber(broker.port, "inflight/box/#") as subscriber:

        def numbers():
            own = (one for one in list(subscriber.messages) if "/command/" not in one.topic)
            return [one.fields["seq"] for one in own if "seq" in one.fields]

        machine.start(SCRIPT)
        machine.wait_for(numbers, 3)
        for command in ("log", "nonsense", "set", "led", "update"):
            subscriber.publish(f"inflight/box/command/{command}", b"on")
        machine.wait_for(lambda: subscriber.find("inflight/box/reply/update"))
        broker.kill()
        accepted = len(machine.accepted())
        machine.wait_for(machine.accepted, accepted + 10)
        broker.start()
        last = machine.accepted()[-1][0]
        machine.wait_for(lambda: [number for number in numbers() if number > last + 60])
    output, _ = machine.kill()
    assert "recursion" not in output
    print(output)
    *_, (most, place) = re.findall(r"^stack (\d+) (.*)", output, re.M)
    assert int(most) < MOST, f"{most} bytes of stack: {place}"
