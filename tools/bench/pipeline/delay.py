"""How soon a message is in the tables while `inflight fleet pipeline` runs, and what that costs."""

import json
import statistics
import sys
import time

from tools.bench.pipeline.collector import client
from tools.bench.pipeline.landing import ROOT
from tools.bench.pipeline.memory import Peaks
from tools.peers.daemon import Program
from tools.peers.mosquitto import Mosquitto

RATE = 170  # messages/s: 100,000 devices that send one each ten minutes
_DEVICES = 1000
_WARM_UP_S = 30  # behind the first batch
_LOOKS_S = 5  # between looks whether all messages that count are there
_PATIENCE_S = 300


class _Fleet:
    """Devices that publish in turn, RATE messages a second."""

    def __init__(self, publisher):
        self._client, self.sent, self._began = publisher, 0, time.monotonic()

    def publish(self, until):
        """Until `until` is over, a time of time.monotonic(), or a function that tells it."""
        over = until if callable(until) else lambda: time.monotonic() >= until
        while not over():
            seq, device = divmod(self.sent, _DEVICES)
            head = {"bn": f"urn:dev:mac:{device:012x}:", "bt": time.time(), "seq": seq, "epoch": 7}
            pack = [head | {"n": "temperature", "u": "Cel", "v": 21.5}, {"n": "humidity", "u": "%RH", "v": 44.25}]
            self._client.publish(f"{ROOT}/{device:012x}/telemetry", json.dumps(pack), 1)
            self.sent += 1
            time.sleep(max(0, self._began + self.sent / RATE - time.monotonic()))


def _delays(raw, since, until):
    """Seconds from the time that a message has from its device to the commit of `raw` with it, of the messages of that
    time, in s since 1970; and how many commits have some of them."""
    import pyarrow.parquet as parquet

    found, commits = [], 0
    for file in sorted((raw / "_delta_log").glob("*.json")):
        actions = list(map(json.loads, file.read_text().splitlines()))
        committed = next(one["commitInfo"]["timestamp"] for one in actions if "commitInfo" in one) / 1000
        before = len(found)
        for path in (one["add"]["path"] for one in actions if "add" in one):
            made = [one.timestamp() for one in parquet.read_table(raw / path, columns=["made"])["made"].to_pylist()]
            found += [committed - one for one in made if since <= one < until]
        commits += len(found) > before
    return found, commits


def measure(folder, seconds, age_s, every_s):
    """The delays of the messages of so many seconds, and the processor time of collector and Spark meanwhile. Landing
    files are finished after `age_s` seconds, batches begin each `every_s`."""
    broker = Mosquitto(folder / "broker", "max_queued_messages 0")
    words = ["--root", ROOT, "--data", folder / "data", "--age", age_s, "--every", every_s]
    ledger = folder / "data/tables/ledger/_delta_log"
    with Peaks() as peaks, broker, client(broker.port, "fleet", True) as publisher:
        argv = [sys.executable, "-m", "inflight_tools", "fleet", "pipeline", "--broker", f"127.0.0.1:{broker.port}"]
        pipeline = Program(folder / "pipeline.log", [*argv, *words])
        pipeline.on()
        fleet = _Fleet(publisher)
        end = time.monotonic() + _PATIENCE_S

        def works():
            if not pipeline.running or time.monotonic() > end:
                raise RuntimeError("the pipeline ended, or it takes no messages")
            return len(list(ledger.glob("*.json"))) > 1

        try:
            fleet.publish(works)
            fleet.publish(time.monotonic() + _WARM_UP_S)
            began, used, sent = time.time(), peaks.processor_s(), fleet.sent
            fleet.publish(time.monotonic() + seconds)
            ended, used, sent = time.time(), peaks.processor_s() - used, fleet.sent - sent
            end = time.monotonic() + _PATIENCE_S
            delays, commits = [], 0
            while len(delays) < sent:
                works()
                fleet.publish(time.monotonic() + _LOOKS_S)
                delays, commits = _delays(folder / "data/tables/raw", began, ended)
        finally:
            pipeline.stop()
    return {
        f"{sent:,} messages, {RATE}/s; --age {age_s} --every {every_s}": {
            "half of them within, s": statistics.median(delays),
            "95 % within, s": statistics.quantiles(delays, n=20)[-1],
            "batches meanwhile": commits,
            "processor, cores": used / (ended - began),
        }
    }
