"""Virtual devices and their networks."""

import asyncio
import random
import resource
import threading

from tools.reference.oracle import Tally
from tools.soak.device import Device, Way
from tools.soak.proxy import KINDS, Proxy
from tools.soak.result import Row

_WAYS = Way(), Way(clean=(True,)), Way(when_full="oldest"), Way(when_full="newest"), Way()


def more_files():
    """Raises the limit of open files to the maximum. Returns it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


class Fleet:
    """Devices at QoS 1 and 2, each behind a proxy: one for each kind of bad network. connect: as for Proxy."""

    def __init__(self, connect, random):
        self.random = random
        self.proxies = [Proxy(kind, connect, random) for kind in KINDS]
        self.devices = []

    def add(self, name, number, ports, interval, ways):
        """ports: of the proxies."""
        place = number % len(ports)
        qos = 1 + number // len(ports) % 2
        kind, way = self.proxies[place].kind, ways[number % len(ways)]
        self.devices.append(Device(f"{name}{number:04}", kind, qos, ports[place], interval, self.random, way))

    def outage(self):
        """Each access point goes off."""
        for proxy in self.proxies:
            proxy.outage()

    def join(self):
        """It is on again."""
        for proxy in self.proxies:
            proxy.join()

    def clear(self):
        """No more faults, no new messages."""
        for device in self.devices:
            device.finish()
        for proxy in self.proxies:
            proxy.end_faults()

    def accepted(self):
        return sum(device.accepted for device in self.devices)

    def unsettled(self):
        return sum(not device.settled for device in self.devices)

    def rows(self, tally):
        """{kind of network: Row}. tally(device): the Tally of what has come from it."""
        rows = {}
        for proxy in self.proxies:
            n = proxy.connections.total()
            rows[proxy.kind] = Row(connections=n, faults=n - proxy.connections["clear"])
        for device in self.devices:
            rows[device.kind].add(device, tally(device))
        return rows


class LiveFleet(Fleet):
    """Such devices, by number, on the real clock, in a thread of their own. `ports`: those of its proxies, in the order
    of KINDS; other devices may use them too."""

    def __init__(self, broker, numbers, interval, seed):
        super().__init__(lambda: asyncio.open_connection("127.0.0.1", broker), random.Random(seed))
        self._tasks = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.ports = self._run(self._begin(numbers, interval))

    def _run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _begin(self, numbers, interval):
        ports = []
        for proxy in self.proxies:
            server = await asyncio.start_server(self._served(proxy), "127.0.0.1", 0, backlog=1024)
            ports.append(server.sockets[0].getsockname()[1])
        for number in numbers:
            self.add("virtual", number, ports, interval, _WAYS)
            self._add_task(self.devices[-1].run())
        return ports

    def _served(self, proxy):
        # Its own task: asyncio logs an error when a task of start_server() is cancelled.
        return lambda reader, writer: self._add_task(proxy.serve(reader, writer))

    def _add_task(self, work):
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def ask(self, work):
        """What work() returns, called while no device runs."""

        async def call():
            return work()

        return self._run(call())

    def end(self, seen):
        """Returns the rows(). seen: how often each (device, number) has come."""

        def tally(device):
            return Tally(n for n in range(1, device.accepted + 1) for _ in range(seen[device.name, n]))

        rows = self.ask(lambda: self.rows(tally))

        async def cancel():
            tasks = [*self._tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._run(cancel())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        return rows
