"""Each kind of bad network alone: when the faults end, the device delivers everything, and nothing was lost."""

import asyncio
import random

import pytest

from inflight.session.session import Session
from inflight.states import DUP
from tools.clock import virtual_time
from tools.soak.device import Device
from tools.soak.network import Broker, Network
from tools.soak.proxy import KINDS, Proxy

NEVER = {"black hole", "captive portal", "refused"}  # no message gets through


async def run_device(device, proxy, loop):
    task = asyncio.ensure_future(device.run())
    await asyncio.sleep(120)
    through = device.client.counters()["completed"]
    device.paused = True
    proxy.end_faults()
    await asyncio.sleep(60)
    settled = device.settled
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return through, settled


def simulated(kind, qos):
    """Returns (broker, proxy, device, messages completed during the faults, whether all were completed at the end)."""
    with virtual_time() as loop:
        network, broker, rng = Network(), Broker(), random.Random(1)
        random.seed(1)  # for the client's jitter
        network.ports[1] = broker.serve
        proxy = Proxy(kind, lambda: network.connect(1), rng, share=1)
        network.ports[2] = proxy.serve
        device = Device("device", kind, qos, 2, 5, rng)
        with network.installed():
            return broker, proxy, device, *loop.run_until_complete(run_device(device, proxy, loop))


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_kind(kind, qos):
    broker, proxy, device, through, settled = simulated(kind, qos)
    assert proxy.connections[kind] >= 1
    assert settled and device.accepted >= 15
    assert not broker.violations
    assert broker.seen["device"].missing(device.accepted) == 0
    assert qos == 1 or broker.seen["device"].repeated == 0
    if kind in NEVER:
        assert through == 0
    elif not kind.startswith("cut"):
        assert through > 0


@pytest.mark.long("INFLIGHT_TOOLS")
def test_a_protocol_violation_is_detected(monkeypatch):
    """A PUBLISH is sent again without DUP."""
    again = Session.retransmit

    def without_dup(self):
        some = again(self)
        for i in range(self.rows):
            self.states[i] &= ~DUP
        return some

    monkeypatch.setattr(Session, "retransmit", without_dup)
    assert any("DUP is missing" in violation for violation in simulated("cut within a packet, in", 2)[0].violations)


def test_outage_of_an_access_point():
    """It breaks all connections, and no new one is made until it ends."""
    with virtual_time() as loop:
        network, broker, rng = Network(), Broker(), random.Random(1)
        network.ports[1] = broker.serve
        proxy = Proxy("clear", lambda: network.connect(1), rng)
        network.ports[2] = proxy.serve
        device = Device("device", "clear", 1, 2, 5, rng)
        states = []

        async def outage():
            task = asyncio.ensure_future(device.run())
            for what in (proxy.outage, proxy.join, None):
                await asyncio.sleep(60)
                states.append(device.client.connected)
                if what:
                    what()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        with network.installed():
            loop.run_until_complete(outage())
    assert states == [True, False, True]
    assert proxy.connections["outage"] > 1
