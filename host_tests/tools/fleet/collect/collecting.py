"""The collector as a process, its landing files, and a publisher."""

import json
import multiprocessing
import os
import re
import resource
import signal
import threading
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from host_tests.waiting import wait_for

PATIENCE_S = 240


def until(condition, what):
    """Returns the result of condition() as soon as it is true."""
    return wait_for(condition, PATIENCE_S, what)


_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["inflight_tools.fleet.commands"])


def _work(pipe, log, environment, words):
    out = os.open(log, os.O_WRONLY) if log else pipe.fileno()
    os.dup2(out, 1)
    os.dup2(out, 2)
    pipe.close()
    os.environ.update(environment)
    from inflight_tools.fleet.commands import app

    app(words)


class Program:
    """`inflight fleet collect OPTIONS` as a process. Its output goes to the file `log`, or output() returns it. It is
    forked from one that has imported what takes long, so that most kills strike at work."""

    command = ("collect",)

    def __init__(self, *options, env=None, log=None):
        self._text = b""
        self._pipe, sender = _FORKS.Pipe(duplex=False)
        words = sender, log and log.name, {"COLUMNS": "200", **(env or {})}, [*self.command, *map(str, options)]
        self._process = _FORKS.Process(target=_work, args=words, daemon=True)
        self._process.start()
        sender.close()
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        with self._pipe:
            while data := os.read(self._pipe.fileno(), 65_536):
                self._text += data

    def output(self):
        return self._text.decode(errors="replace")

    def until(self, pattern, times=1):
        until(lambda: len(re.findall(pattern, self.output())) >= times, lambda: f"{pattern} in:\n{self.output()}")
        return self

    def connected(self):
        return self.until("connected to the broker")

    def kill(self):
        self._process.kill()
        self.status()

    def counted(self, n):
        """Waits until it has reported n messages."""
        return self.until(rf"  {n} messages,")

    def stop(self):
        """It does nothing until go_on()."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self):
        os.kill(self.pid, signal.SIGCONT)

    def end(self, number=signal.SIGTERM):
        """Sends this signal, and returns the exit status."""
        os.kill(self.pid, number)
        return self.status()

    def status(self):
        self._process.join(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return self._process.exitcode

    def memory(self):
        """Its resident set, in bytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    def most_memory(self):
        """The largest resident set that it ever had, in bytes."""
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())[1])


class Landing:
    """The landing files in a folder. read() checks their names and lines; unchanged() checks that no file changed."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}  # name: content when it was first seen
        self.lines = []

    def read(self):
        """All lines so far, as dicts."""
        for path in sorted(self.folder.glob("*.ndjson")):
            if path.name not in self.files:
                assert re.fullmatch(r"[\w.-]+-\d+-\d+\.ndjson", path.name)
                content = self.files[path.name] = path.read_bytes()
                assert content.endswith(b"\n")
                self.lines += [json.loads(line) for line in content.splitlines()]
        return self.lines

    def texts(self):
        return [line["text"] for line in self.read()]

    def one(self):
        """The only line."""
        (line,) = self.until(1)
        return line

    def until(self, n):
        """Returns the lines as soon as there are n."""
        until(lambda: len(self.read()) >= n, lambda: f"{n} lines; found {len(self.lines)}")
        return self.lines

    def until_all(self, texts):
        """Waits until each of `texts` is in the files."""
        missing = set(texts)

        def complete():
            missing.difference_update(self.texts())
            return not missing

        until(complete, lambda: f"all of {len(texts)} messages; {len(missing)} are missing, as {sorted(missing)[:3]}")

    def unchanged(self):
        for name, content in self.files.items():
            assert (self.folder / name).read_bytes() == content, f"{name} has changed"

    def hidden(self, ending):
        return [path.name for path in self.folder.glob(f".*{ending}")]

    def figures(self, name="collector-0"):
        return json.loads((self.folder / f".{name}.json").read_text())


def at(broker):
    """The option of the collector for a broker."""
    return "--broker", f"127.0.0.1:{broker.port}"


@contextmanager
def publisher(broker, ca=None, transport="tcp", protocol=paho.MQTTv311):
    """A connected client. At the end it waits until all that it published is acknowledged."""
    session = {"clean_session": False} if protocol == paho.MQTTv311 else {}
    client = paho.Client(
        paho.CallbackAPIVersion.VERSION2, "publisher", transport=transport, protocol=protocol, **session
    )
    client.max_inflight_messages_set(200)
    client.reconnect_delay_set(1, 1)
    acknowledged = [0]
    client.on_publish = lambda client, userdata, mid, *_: acknowledged.__setitem__(0, mid)
    if ca:
        client.tls_set(str(ca))
    client.connect("localhost", broker.port)
    client.loop_start()
    try:
        yield client
        last = client.publish("none", b"", 1)  # acknowledged last: the broker acknowledges in order
        until(lambda: acknowledged[0] == last.mid, "the last PUBACK")
    finally:
        client.disconnect()
        client.loop_stop()


def publish(broker, *payloads, topic="inflight/attic/telemetry", retain=False, ca=None, transport="tcp", **given):
    """given: properties of MQTT 5, by the names that Paho has for them."""
    properties = Properties(PacketTypes.PUBLISH) if given else None
    for name, value in given.items():
        setattr(properties, name, value)
    with publisher(broker, ca, transport, paho.MQTTv5 if given else paho.MQTTv311) as client:
        for payload in payloads:
            client.publish(topic, payload, 1, retain, properties)


@contextmanager
def load(broker, rate=1500):
    """Publishes numbers in the background, `rate` a second. Yields the list of those published. At the end the broker
    has acknowledged all."""
    done, numbers = threading.Event(), []

    def run():
        with publisher(broker) as client:
            while not done.wait(0.01):
                for _ in range(rate // 100):
                    numbers.append(str(len(numbers)))
                    client.publish(f"inflight/device-{len(numbers) % 7}/telemetry", numbers[-1], 1)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield numbers
    finally:
        done.set()
        thread.join(2 * PATIENCE_S)
    assert not thread.is_alive()
