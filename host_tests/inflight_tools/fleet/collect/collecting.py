"""The collector as a program, what it leaves on disk, and somebody who publishes."""

import json
import os
import re
import resource
import signal
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as paho

from host_tests.processes import INFLIGHT
from host_tests.waiting import wait_for

PATIENCE_S = 30


def until(condition, what):
    """What condition() returns, as soon as it is true."""
    return wait_for(condition, PATIENCE_S, what)


class Program:
    """What it says goes to `log`, or is kept in mind."""

    def __init__(self, *options, env=None, log=None):
        self._text = b""
        self._process = subprocess.Popen(
            [*INFLIGHT, "fleet", "collect", *map(str, options)],
            stdout=log or subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "COLUMNS": "200", **(env or {})},
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        if not log:
            self._reader.start()

    def _read(self):
        with self._process.stdout as out:
            while data := out.read1():
                self._text += data

    def said(self):
        return self._text.decode(errors="replace")

    def until(self, pattern, times=1):
        until(lambda: len(re.findall(pattern, self.said())) >= times, lambda: f"{pattern} in:\n{self.said()}")
        return self

    def connected(self):
        return self.until("connected to the broker")

    def kill(self):
        self._process.kill()
        self.status()

    def counted(self, n):
        """It has told of n messages."""
        return self.until(rf"  {n} messages,")

    def end(self, number=signal.SIGTERM):
        """Its exit status after this signal."""
        self._process.send_signal(number)
        return self.status()

    def status(self):
        status = self._process.wait(PATIENCE_S)
        if self._reader.ident:
            self._reader.join(PATIENCE_S)
        return status

    def memory(self):
        """Bytes that it has in RAM."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * resource.getpagesize()


class Landing:
    """The finished files of a folder. Every line is checked as it is read, and that no file changes afterwards."""

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
        """The only line that there will be."""
        (line,) = self.until(1)
        return line

    def until(self, n):
        """The lines as soon as there are n."""
        until(lambda: len(self.read()) >= n, lambda: f"{n} lines; {len(self.lines)} came")
        return self.lines

    def until_all(self, texts):
        """Returns when each of `texts` has come."""
        missing = set(texts)

        def complete():
            missing.difference_update(self.texts())
            return not missing

        until(complete, lambda: f"all of {len(texts)} messages; {len(missing)} are missing, as {sorted(missing)[:3]}")

    def unchanged(self):
        for name, content in self.files.items():
            assert (self.folder / name).read_bytes() == content, f"{name} changed after it had appeared"

    def hidden(self, ending):
        return [path.name for path in self.folder.glob(f".*{ending}")]

    def figures(self, name="collector-0"):
        return json.loads((self.folder / f".{name}.json").read_text())


@contextmanager
def publisher(broker, ca=None):
    """A client that is connected; leaves when all it published was acknowledged."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "publisher", clean_session=False)
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
        last = client.publish("none", b"", 1)  # acknowledged in order: what came before is with the broker then
        until(lambda: acknowledged[0] == last.mid, "the broker has it all")
    finally:
        client.disconnect()
        client.loop_stop()


def publish(broker, *payloads, topic="inflight/attic/telemetry", retain=False, ca=None):
    with publisher(broker, ca) as client:
        for payload in payloads:
            client.publish(topic, payload, 1, retain)


@contextmanager
def load(broker, rate=4000):
    """Publishes numbers at this rate per second meanwhile. Yields the list of what was published; at the end all of it
    is with the broker."""
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
