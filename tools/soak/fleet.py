"""Virtual devices on the real clock. Each share of them, with its proxies, runs in a process of its own."""

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


class _Work:
    """Runs in the process of a Share."""

    def __init__(self, pipe, broker, numbers, interval, seed):
        self._pipe, self._broker = pipe, broker
        self._numbers, self._interval = numbers, interval
        self._random = random.Random(seed)
        self._resident = []  # MB, every second
        self._proxies = [Proxy(kind, self._connect, self._random) for kind in KINDS]
        self._devices = []
        self._tasks = set()

    async def _connect(self):
        return await asyncio.open_connection("127.0.0.1", self._broker)

    async def run(self):
        ports = []
        for proxy in self._proxies:
            server = await asyncio.start_server(self._served(proxy), "127.0.0.1", 0, backlog=1024)
            ports.append(server.sockets[0].getsockname()[1])
        self._pipe.send(ports)
        self._devices = [self._device(number, ports) for number in self._numbers]
        tasks = [asyncio.ensure_future(device.run()) for device in self._devices]
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

    def _device(self, number, ports):
        place = number % len(ports)
        qos = 1 + number // len(ports) % 2
        kind = self._proxies[place].kind
        way = _WAYS[number % len(_WAYS)]
        return Device(f"virtual{number:04}", kind, qos, ports[place], self._interval, self._random, way)

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
                self._pipe.send(getattr(self, "_do_" + command)())

    def _do_outage(self):
        for proxy in self._proxies:
            proxy.outage()

    def _do_join(self):
        for proxy in self._proxies:
            proxy.join()

    def _do_clear(self):
        for device in self._devices:
            device.finish()
        for proxy in self._proxies:
            proxy.end_faults()

    def _do_accepted(self):
        return sum(device.accepted for device in self._devices)

    def _do_unsettled(self):
        return sum(not device.settled for device in self._devices)

    def _do_end(self):
        connections = {proxy.kind: proxy.connections for proxy in self._proxies}
        devices = [SimpleNamespace(**{name: getattr(device, name) for name in _REPORTED}) for device in self._devices]
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
        """Commands: outage; join (ends the outage); clear (no more faults, no new messages); accepted, unsettled
        (return how many); end."""
        self._pipe.send(command)
        return self._pipe.recv()

    def end(self):
        """Returns (fields of each device, connections of each kind of network, MB of RAM in each second)."""
        answer = self.ask("end")
        self._process.join(30)
        return answer
