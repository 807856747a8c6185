"""Virtual sensors: MicroPython processes with the firmware and the unix board."""

import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

from tools.demo.subscriber import ROOT
from tools.patience import Patience
from tools.peers import mosquitto
from tools.peers.daemon import Program
from tools.runtimes import runtime
from tools.runtimes.device_run import application

HEAP = "200k"
_DRAIN = Path(__file__).parent / "device" / "drain.py"


def best_runtime():
    """The 32-bit MicroPython if this machine can run it, else the 64-bit one. RuntimeError if there is neither."""
    found = [runtime(name) for name in ("micropython-x86", "micropython-x64")]
    for candidate in found:
        if not candidate.reason:
            return candidate
    raise RuntimeError("; ".join(f"{r.name}: {r.reason}" for r in found))


class Sensor(Program):
    """The device `name`. Its flash is a folder; a power cut is SIGKILL. fields: more of its configuration."""

    def __init__(self, name, folder, code, interpreter, port, qos, interval_ms, **fields):
        super().__init__(folder / "console.log")
        self.name, self.qos = name, qos
        self._accepted = folder / "accepted.log"
        self._command = interpreter.command(HEAP)
        self.environ = dict(os.environ, MICROPYPATH=str(code), INFLIGHT_HOME=str(folder))
        self.environ |= {"INFLIGHT_DEVICE_ID": name, "INFLIGHT_ACCEPTED_LOG": str(self._accepted)}
        folder.mkdir(parents=True)
        self._config = {"host": "127.0.0.1", "port": port, "root": ROOT, "qos": qos, "interval_ms": interval_ms}
        self._config |= {"health_ms": 5000, "keepalive": 10, "max_inflight": 8}
        self._config |= {"user": name, "password": mosquitto.password(name)} | fields
        self._configure(timeout_ms=3000)

    def _configure(self, **fields):
        self.file.with_name("config.json").write_text(json.dumps(self._config | fields))

    def on(self, *arguments, **options):
        """Starts the firmware, or what the interpreter's arguments say."""
        super().on(*self._command, *(arguments or ("-m", "main")), **options)

    def start_drain(self):
        """Starts the device only to deliver the messages in its journal."""
        self._configure(timeout_ms=60_000, keepalive=60, watchdog_ms=0)
        self.on(str(_DRAIN), stdout=subprocess.PIPE)

    def end_drain(self):
        """Returns the next sequence number of the journal, which is delivered. RuntimeError if it is not."""
        if self.running or self.process.returncode:
            raise RuntimeError(f"{self.name} does not deliver the messages in its journal: see its console.log")
        return int(self.process.communicate()[0].split()[-1])

    def accepted(self):
        """Messages that publish() accepted: {(sequence number, QoS)}. A line cut short by a power cut is ignored."""
        lines = self._accepted.read_text().split("\n")[:-1] if self._accepted.exists() else []
        return {(int(seq), int(qos)) for seq, qos, _ in (line.split(" ", 2) for line in lines)}


def names_of(n):
    """The names of the `n` sensors of a Fleet."""
    return [f"sensor{i:03}" for i in range(n)]


class Fleet:
    """A sensor for each (port of the broker, QoS) of `links`. `files`: how many files of firmware each has."""

    def __init__(self, folder, links, interval_ms, seed=None):
        interpreter = best_runtime()
        code = shutil.copytree(application(), folder / "code")  # a change of the sources does not reach a running fleet
        self.interpreter, self.files = interpreter.name, len(list(code.rglob("*.mpy")))
        self._random = random.Random(seed)
        self.cuts = self.deaths = 0
        names = names_of(len(links))
        self.sensors = [
            Sensor(name, folder / name, code, interpreter, port, qos, interval_ms)
            for name, (port, qos) in zip(names, links, strict=True)
        ]

    def __enter__(self):
        for sensor in self.sensors:
            sensor.on()
        return self

    def __exit__(self, *_):
        for sensor in self.sensors:
            sensor.off()

    def cut_one(self):
        """Cuts the power of a random sensor, and restarts it."""
        sensor = self._random.choice(self.sensors)
        if sensor.off():
            self.cuts += 1
        else:
            self.deaths += 1
        sensor.on()

    def drain(self, seconds, progress):
        """Cuts the power of all sensors, then each delivers its journal without publishing new messages. Returns
        {device: next sequence number}. RuntimeError if one has not when progress() has not changed for `seconds`."""
        patience = Patience(seconds)
        for sensor in self.sensors:
            self.deaths += not sensor.off()
        for sensor in self.sensors:
            sensor.start_drain()
        while any(sensor.running for sensor in self.sensors) and not patience.over(progress()):
            time.sleep(0.05)
        return {sensor.name: sensor.end_drain() for sensor in self.sensors}

    def accepted(self):
        return {(s.name, seq, qos) for s in self.sensors for seq, qos in s.accepted()}
