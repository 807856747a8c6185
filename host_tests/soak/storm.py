"""Measures how the reconnects of a fleet are spread after a broker outage, on a virtual clock."""

import asyncio
import math
import random

from tools.clock import virtual_time
from tools.soak.device import Device
from tools.soak.network import Broker, Network

_BROKER = 1  # its port
_BEFORE_S = 30
_AFTER_S = 120


def bound(devices, away, first, longest):
    """The largest number of CONNECTs in one second that back-off with full jitter allows after `away` seconds.

    After n failures a device has waited about first * (2**n - 1) / 2, half the sum of its maximum pauses. Its next
    maximum pause, first * 2**n, is thus about 2 * away + first, at most `longest`. With pauses uniform up to this
    maximum, a device makes at most two attempts in that time. The bound adds five standard deviations."""
    pause = min(longest, 2 * away + first)
    expected = devices * min(1, 2 / pause)
    return expected + 5 * math.sqrt(expected)


async def _leave_and_return(network, broker, fleet, away, counts):
    loop = asyncio.get_running_loop()
    tasks = [asyncio.ensure_future(device.run()) for device in fleet]
    await asyncio.sleep(_BEFORE_S)
    connected = sum(device.client.connected for device in fleet)
    del network.ports[_BROKER]
    broker.restart()
    await asyncio.sleep(away)
    network.ports[_BROKER] = broker.serve
    began = loop.time()

    def count():
        counts[min(int(loop.time() - began), _AFTER_S)] += 1

    broker.on_connect = count
    await asyncio.sleep(_AFTER_S)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return connected


def spread(devices, away, first, longest, seed):
    """Returns (devices that were connected before, CONNECTs in each second after the broker returned)."""
    counts = [0] * (_AFTER_S + 1)
    rng = random.Random(seed)
    random.seed(seed)  # for the clients' jitter
    with virtual_time() as loop:
        network, broker = Network(), Broker()
        network.ports[_BROKER] = broker.serve
        backoff = (first * 1000, longest * 1000)
        fleet = [Device(f"device{i:04}", "clear", 1, _BROKER, 60, rng, backoff_ms=backoff) for i in range(devices)]
        with network.installed():
            connected = loop.run_until_complete(_leave_and_return(network, broker, fleet, away, counts))
    while counts and not counts[-1]:
        counts.pop()
    return connected, counts
