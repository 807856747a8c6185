"""How soon the console of tables answers that has many devices, and its memory."""

import contextlib
import http.client
import itertools
import json
import re
import statistics
import subprocess
import sys
import time

from inflight_tools.fleet import device
from inflight_tools.fleet.collect.line import line
from tools.bench.pipeline.landing import BEGAN, ROOT, deliveries, land
from tools.bench.pipeline.memory import peak
from tools.bench.pipeline.stages import lines_of, spark_in

_GROUPS = 20
_PATIENCE_S = 600
_JOURNAL = {"live": 3, "used": 4000, "limit": 49_152, "erases": 7, "damaged": 0, "skipped": 0}


def _starts(devices):
    """Yields the lines of the first two messages of each device: its status and its health."""
    for n in range(devices):
        status = {"state": "online", "board": "esp32", "group": f"group-{n % _GROUPS}", "oldest": 0}
        health = {"up": 60, "heap": 100_000, "journal": _JOURNAL, "accepted": 2, "oldest": 1, "firmware": "1.0"}
        for seq, (kind, told) in enumerate((("status", status), ("health", health))):
            payload = json.dumps({"seq": seq, "epoch": 7} | told).encode()
            topic = f"{ROOT}/{n:012x}/{kind}"
            yield line(BEGAN + seq, "collector-0", topic, 1, False, False, payload, 1 << 20)


def _make_tables(folder, devices):
    """Four messages of each device in tables."""
    land(folder / "landing", itertools.chain(_starts(devices), deliveries(2 * devices, devices, before=2 * devices)))
    with spark_in(folder) as spark:
        from inflight_tools.fleet.spark.batch import Tables, take

        Tables(spark, str(folder / "tables")).create()
        take(lines_of(spark, folder / "landing"), 0, str(folder / "tables"), ROOT)
    for file in (folder / "landing").iterdir():  # as Spark moves them away
        file.unlink()


@contextlib.contextmanager
def _served(folder):
    """(process, port) of a console that has figures."""
    words = ["serve", "--data", str(folder), "--root", ROOT, "--listen", "0", "--reading", "temperature"]
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-m", "inflight_tools", *words], stderr=pipe, text=True) as process:
        try:
            yield process, int(re.search(r":(\d+)/$", process.stderr.readline())[1])
        finally:
            process.terminate()


def _get(port, path):
    """(status, text)"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def _until(port, path, is_it):
    """Seconds until an answer is so."""
    start = time.perf_counter()
    while not is_it(*_get(port, path)):
        if time.perf_counter() > start + _PATIENCE_S:
            raise RuntimeError(f"the console has not answered {path} as it should in {_PATIENCE_S} s")
        time.sleep(0.05)
    return time.perf_counter() - start


def measure(folder, devices):
    """Asks for each page in turn, until the figures of the fleet were computed again."""
    _make_tables(folder, devices)
    name = f"{devices // 2:012x}"
    pages = {
        "first page": "/",
        "search": f"/devices?find={name[-4:]}+group-1&sort=-accepted",
        "the last page of all devices": f"/devices?sort=device&number={devices}",
        "a device": f"/device?name={name}",
        "look for news": f"/fresh?name={name}",
        "metrics, with a reading of each device": "/metrics",
    }
    found = {page: [] for page in pages}
    with _served(folder) as (process, port):
        first_s = _until(port, "/", lambda status, _: status == 200)
        whole_s = _until(port, pages["a device"], lambda _, text: 'id="waits"' not in text)
        before = _get(port, "/fresh")
        device.say(str(folder / "tables"), "note", name, "behind the stove", False)
        while _get(port, "/fresh") == before:
            for page, path in pages.items():
                start = time.perf_counter()
                status, text = _get(port, path)
                found[page].append(1000 * (time.perf_counter() - start))
                if status != 200:
                    raise RuntimeError(f"{path}: {text}")
        _, memory = peak(process.pid)
    figures = {
        f"{page}, ms: half, 95 %, all of {len(one):,} within": ", ".join(
            f"{ms:,.0f}" for ms in (statistics.median(one), statistics.quantiles(one, n=20)[-1], max(one))
        )
        for page, one in found.items()
    }
    figures |= {"first figures, s": first_s, "a device with its measurements, s": whole_s}
    return {f"{devices:,} devices": figures | {"peak memory, MB": memory / 1e6}}
