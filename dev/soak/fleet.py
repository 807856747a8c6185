"""Virtual devices on the real clock: a process for each share of them, and for the bad networks that they are in."""

import asyncio
import multiprocessing
import random
import resource
from types import SimpleNamespace

from .device import Device, Way
from .weather import KINDS, Weather

_TOLD = ("name", "kind", "qos", "accepted", "full", "settled", "when_full", "dropped", "excused")  # by each device
_WAYS = Way(), Way(clean=(True,)), Way(when_full="oldest"), Way(when_full="newest"), Way()


def more_files():
    """Raises the limit of open files as far as it goes. Returns it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def _resident():
    """MB of RAM that this process holds."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


class _Work:
    """What runs in the process."""

    def __init__(self, pipe, broker, numbers, interval, seed):
        self._pipe, self._broker = pipe, broker
        self._numbers, self._interval = numbers, interval
        self._random = random.Random(seed)
        self._resident = []  # MB, every second
        self._weathers = [Weather(kind, self._connect, self._random) for kind in KINDS]
        self._devices = []
        self._tasks = set()

    async def _connect(self):
        return await asyncio.open_connection("127.0.0.1", self._broker)

    async def run(self):
        ports = []
        for weather in self._weathers:
            server = await asyncio.start_server(self._served(weather), "127.0.0.1", 0, backlog=1024)
            ports.append(server.sockets[0].getsockname()[1])
        self._pipe.send(ports)
        self._devices = [self._device(number, ports) for number in self._numbers]
        tasks = [asyncio.ensure_future(device.run()) for device in self._devices]
        tasks.append(asyncio.ensure_future(self._watch()))
        await self._obey()
        tasks += self._tasks
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _served(self, weather):
        def serve(reader, writer):  # a task of ours: asyncio's own would complain of being cancelled
            task = asyncio.ensure_future(weather.serve(reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return serve

    def _device(self, number, ports):
        place = number % len(ports)
        qos = 1 + number // len(ports) % 2
        kind = self._weathers[place].kind
        way = _WAYS[number % len(_WAYS)]
        return Device(f"virtual{number:04}", kind, qos, ports[place], self._interval, self._random, way)

    async def _watch(self):
        while True:
            self._resident.append(_resident())
            await asyncio.sleep(1)

    async def _obey(self):
        heard = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), heard.set)
        word = ""
        while word != "end":
            await heard.wait()
            heard.clear()
            if self._pipe.poll():  # it may have been heard twice
                try:
                    word = self._pipe.recv()
                except EOFError:  # whoever wants to know is gone
                    return
                self._pipe.send(getattr(self, "_do_" + word)())

    def _do_outage(self):
        for weather in self._weathers:
            weather.outage()

    def _do_join(self):
        for weather in self._weathers:
            weather.join()

    def _do_clear(self):
        for device in self._devices:
            device.finish()
        for weather in self._weathers:
            weather.clear_up()

    def _do_accepted(self):
        return sum(device.accepted for device in self._devices)

    def _do_unsettled(self):
        return sum(not device.settled for device in self._devices)

    def _do_end(self):
        connections = {weather.kind: weather.connections for weather in self._weathers}
        told = [SimpleNamespace(**{name: getattr(device, name) for name in _TOLD}) for device in self._devices]
        return told, connections, self._resident


def _work(*arguments):
    asyncio.run(_Work(*arguments).run())


class Share:
    """Some of the devices, by their numbers, in a process of their own. `ports`: those of its networks, in the order of
    KINDS, for other devices as well."""

    def __init__(self, broker, numbers, interval, seed):
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, broker, numbers, interval, seed), daemon=True)
        self._process.start()
        theirs.close()
        self.ports = self._pipe.recv()

    def ask(self, word):
        """outage, join, clear (no more faults, nothing new published); accepted, unsettled: how many; end."""
        self._pipe.send(word)
        return self._pipe.recv()

    def end(self):
        """Returns what its devices tell, the connections of each kind of network, MB of RAM in each second."""
        answer = self.ask("end")
        self._process.join(30)
        return answer
