"""How soon the console of tables answers that has many devices, and its memory."""

import itertools
import json
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

from inflight_tools.fleet import device
from inflight_tools.fleet.collect.line import line
from tools.bench.pipeline.landing import BEGAN, ROOT, deliveries, land
from tools.bench.pipeline.memory import peak
from tools.bench.pipeline.stages import spark_in, take_all, timed

_GROUPS = 20
_PATIENCE_S = 60
_STATUS = {"state": "online", "board": "esp32"}
_JOURNAL = {"live": 3, "used": 4000, "limit": 49_152}
_HEALTH = {"up": 60, "heap": 100_000, "firmware": "1.0", "accepted": 2, "journal": _JOURNAL}


def _starts(devices):
    """Yields the lines of the first two messages of each device."""
    for n in range(devices):
        status = _STATUS | {"group": f"group-{n % _GROUPS}"}
        for seq, (kind, told) in enumerate((("status", status), ("health", _HEALTH))):
            payload = json.dumps({"seq": seq, "epoch": 7, "oldest": seq} | told).encode()
            yield line(BEGAN + seq, "collector-0", f"{ROOT}/{n:012x}/{kind}", 1, False, False, payload, 1 << 20)


def _page(url):
    """Its text, "" while the console reads the tables."""
    try:
        with urllib.request.urlopen(url, timeout=_PATIENCE_S) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as e:
        if "are being read" not in e.read().decode():
            raise
        return ""


def _wait(url, is_so):
    while not is_so(_page(url)):
        time.sleep(0.05)


def measure(folder, devices):
    """Asks for each page in turn, until the figures of the fleet were computed again. A device has four messages."""
    lines = itertools.chain(_starts(devices), deliveries(2 * devices, devices, before=2 * devices))
    land(folder / "read", lines)
    with spark_in(folder) as spark:
        take_all(spark, folder / "read", folder / "tables")
    name = f"{devices // 2:012x}"
    pages = {
        "first page": "",
        "search": f"devices?find={name[-3:]}+group-1&sort=-accepted",
        "last page of all devices": f"devices?sort=device&number={devices}",
        "a device": f"device?name={name}",
        "whether it has changed": f"fresh?name={name}",
        "metrics, with a reading of each device": "metrics",
    }
    found = {page: [] for page in pages}
    words = ["serve", "--data", str(folder), "--root", ROOT, "--listen", "0", "--reading", "temperature"]
    argv = [sys.executable, "-m", "inflight_tools", *words]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as console:
        try:
            url = console.stderr.readline().split()[-1]
            first_s, _ = timed(_wait, url, bool)
            whole_s, _ = timed(_wait, url + pages["a device"], lambda text: 'id="waits"' not in text)
            before = _page(url + "fresh")
            device.say(str(folder / "tables"), "note", name, "behind the stove", False)
            while _page(url + "fresh") == before:
                for page, path in pages.items():
                    found[page].append(1000 * timed(_page, url + path)[0])
            _, memory = peak(console.pid)
        finally:
            console.terminate()
    figures = {
        f"{page}, ms: half, 95 %, all of {len(ms):,} within": ", ".join(
            f"{one:,.0f}" for one in (statistics.median(ms), statistics.quantiles(ms, n=20)[-1], max(ms))
        )
        for page, ms in found.items()
    }
    figures |= {"until the first figures, s": first_s, "until all of a device is read, s": whole_s}
    return {f"{devices:,} devices": figures | {"peak memory, MB": memory / 1e6}}
