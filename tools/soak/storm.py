"""How a fleet comes back when its broker was away: the spread of reconnects, exact, on a virtual clock."""

import asyncio
import math
import random

from .clock import virtual_time
from .device import Device
from .world import Broker, World

_BROKER = 1  # its port
_BEFORE_S = 30
_AFTER_S = 120


def bound(devices, away, first, longest):
    """The most CONNECTs in one second that back-off with full jitter allows after `away` seconds. A device that failed
    n times has waited about first * (2**n - 1) / 2, half of the sum of its pauses, and draws the next one from
    first * 2**n: about 2 * away + first, `longest` at most. Attempts that are drawn evenly from such a pause are no
    denser than two in its length. Five standard deviations are left to chance."""
    pause = min(longest, 2 * away + first)
    expected = devices * min(1, 2 / pause)
    return expected + 5 * math.sqrt(expected)


async def _leave_and_return(world, broker, fleet, away, counts):
    loop = asyncio.get_running_loop()
    tasks = [asyncio.ensure_future(device.run()) for device in fleet]
    await asyncio.sleep(_BEFORE_S)
    connected = sum(device.client.connected for device in fleet)
    del world.ports[_BROKER]
    broker.restart()
    await asyncio.sleep(away)
    world.ports[_BROKER] = broker.serve
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
    """(devices that were connected, CONNECTs in each second since the broker is back)."""
    counts = [0] * (_AFTER_S + 1)
    draw = random.Random(seed)
    random.seed(seed)  # what clients draw their pauses from
    with virtual_time() as loop:
        world, broker = World(), Broker()
        world.ports[_BROKER] = broker.serve
        backoff = (first * 1000, longest * 1000)
        fleet = [Device(f"device{i:04}", "clear", 1, _BROKER, 60, draw, backoff_ms=backoff) for i in range(devices)]
        with world.reached():
            connected = loop.run_until_complete(_leave_and_return(world, broker, fleet, away, counts))
    while counts and not counts[-1]:
        counts.pop()
    return connected, counts
