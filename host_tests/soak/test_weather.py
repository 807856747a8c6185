"""Each kind of bad network alone: whatever it does, the device gets through when it ends, and nothing is lost."""

import asyncio
import random

import pytest

from inflight.outbound import DUP, Outbound
from soak.clock import virtual_time
from soak.device import Device
from soak.weather import KINDS, Weather
from soak.world import Broker, World

NEVER = {"black hole", "captive portal", "refused"}  # no message gets through


async def live(device, weather, loop):
    task = asyncio.ensure_future(device.run())
    await asyncio.sleep(120)
    through = device.client.counters()["completed"]
    device.quiet = True
    weather.clear_up()
    await asyncio.sleep(60)
    settled = device.settled
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return through, settled


def lived(kind, qos):
    """(broker, weather, device, messages completed in bad weather, whether all was settled in the end)."""
    with virtual_time() as loop:
        world, broker, draw = World(), Broker(), random.Random(1)
        random.seed(1)  # what the client draws its pauses from
        world.ports[1] = broker.serve
        weather = Weather(kind, lambda: world.connect(1), draw, share=1)
        world.ports[2] = weather.serve
        device = Device("device", kind, qos, 2, 5, draw)
        with world.reached():
            return broker, weather, device, *loop.run_until_complete(live(device, weather, loop))


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_kind(kind, qos):
    broker, weather, device, through, settled = lived(kind, qos)
    assert weather.connections[kind] >= 1
    assert settled and device.accepted >= 15
    assert not broker.violations
    assert broker.seen["device"].missing(device.accepted) == 0
    assert qos == 1 or broker.seen["device"].repeated == 0
    if kind in NEVER:
        assert through == 0
    elif not kind.startswith("cut"):
        assert through > 0


def test_a_client_that_breaks_the_protocol_is_seen(monkeypatch):
    """A PUBLISH that is sent again as if it were new."""
    again = Outbound.retransmit

    def without_dup(self):
        some = again(self)
        for i in range(self.rows):
            self.states[i] &= ~DUP
        return some

    monkeypatch.setattr(Outbound, "retransmit", without_dup)
    assert any("DUP is missing" in violation for violation in lived("cut within a packet, in", 2)[0].violations)


def test_an_access_point_that_goes():
    """Connections break, none is made, until it is back."""
    with virtual_time() as loop:
        world, broker, draw = World(), Broker(), random.Random(1)
        world.ports[1] = broker.serve
        weather = Weather("clear", lambda: world.connect(1), draw)
        world.ports[2] = weather.serve
        device = Device("device", "clear", 1, 2, 5, draw)
        states = []

        async def outage():
            task = asyncio.ensure_future(device.run())
            for what in (weather.outage, weather.join, None):
                await asyncio.sleep(60)
                states.append(device.client.connected)
                if what:
                    what()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        with world.reached():
            loop.run_until_complete(outage())
    assert states == [True, False, True]
    assert weather.connections["outage"] > 1
