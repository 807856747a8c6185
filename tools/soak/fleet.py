"""Virtual devices and their networks; on the real clock each share of them runs in a process of its own."""

import asyncio
import multiprocessing
import random
import resource
from types import SimpleNamespace

from tools.soak.device import Device, Way
from tools.soak.proxy import KINDS, Proxy

_REPORTED = ("name", "kind", "qos", "accepted", "full", "settled", "when_full", "dropped", "excused")  # by each device
_WAYS = Way(), Way(clean=(True,)), Way(when_full="oldest"), Way(when_full="newest"), Way()


def more_files():
    """Raises the limit of open files to the maximum. Returns it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def _resident():
    """Resident memory of this process in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


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


class _Work(Fleet):
    """Runs in the process of a Share."""

    def __init__(self, pipe, broker, numbers, interval, seed):
        super().__init__(lambda: asyncio.open_connection("127.0.0.1", broker), random.Random(seed))
        self._pipe, self._numbers, self._interval = pipe, numbers, interval
        self._resident = []  # MB, every second
        self._tasks = set()

    async def run(self):
        ports = []
        for proxy in self.proxies:
            server = await asyncio.start_server(self._served(proxy), "127.0.0.1", 0, backlog=1024)
            ports.append(server.sockets[0].getsockname()[1])
        self._pipe.send(ports)
        for number in self._numbers:
            self.add("virtual", number, ports, self._interval, _WAYS)
        tasks = [asyncio.ensure_future(device.run()) for device in self.devices]
        tasks.append(asyncio.ensure_future(self._watch()))
        await self._serve_commands()
        tasks += self._tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _served(self, proxy):
        def serve(reader, writer):  # its own task: asyncio logs an error when a task of start_server() is cancelled
            task = asyncio.ensure_future(proxy.serve(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return serve

    async def _watch(self):
        while True:
            self._resident.append(_resident())
            await asyncio.sleep(1)

    async def _serve_commands(self):
        readable = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), readable.set)
        command = ""
        while command != "end":
            await readable.wait()
            readable.clear()
            if self._pipe.poll():  # the event may have been set twice for one command
                try:
                    command = self._pipe.recv()
                except EOFError:  # the parent process has ended
                    return
                self._pipe.send(getattr(self, command)())

    def end(self):
        connections = {proxy.kind: proxy.connections for proxy in self.proxies}
        devices = [SimpleNamespace(**{name: getattr(device, name) for name in _REPORTED}) for device in self.devices]
        return devices, connections, self._resident


def _work(*arguments):
    asyncio.run(_Work(*arguments).run())


class Share:
    """Some of the devices, by number, in a process of their own. `ports`: those of its proxies, in the order of KINDS;
    other devices may use them too."""

    def __init__(self, broker, numbers, interval, seed):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, broker, numbers, interval, seed), daemon=True)
        self._process.start()
        theirs.close()
        self.ports = self._pipe.recv()

    def ask(self, command):
        """Calls a method of its Fleet; returns what that returns."""
        self._pipe.send(command)
        return self._pipe.recv()

    def end(self):
        """Returns (fields of each device, connections of each kind of network, MB of RAM in each second)."""
        answer = self.ask("end")
        self._process.join(30)
        return answer
