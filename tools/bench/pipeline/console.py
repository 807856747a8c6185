"""How soon the console of tables answers that has many devices, and its memory."""

import itertools
import json
import statistics
import sys
import time
import urllib.error
import urllib.request

from inflight_tools.fleet import device
from inflight_tools.fleet.collect.line import line
from tools.bench.pipeline.landing import ROOT, deliveries, land
from tools.bench.pipeline.memory import peak
from tools.bench.pipeline.stages import spark_in, take_all, timed
from tools.peers.daemon import Daemon

_TOLD: dict[str, dict] = {
    "status": {"state": "online", "board": "esp32"},
    "health": {"up": 60, "firmware": "1.0", "accepted": 2, "journal": {"live": 3, "used": 4000, "limit": 49_152}},
}


def _starts(devices, began):
    """Yields the lines of the first two messages of each device, in 20 groups."""
    for n in range(devices):
        for seq, (kind, told) in enumerate(_TOLD.items()):
            payload = json.dumps({"seq": seq, "epoch": 7, "oldest": seq, "group": f"group-{n % 20}"} | told).encode()
            yield line(began + seq, "collector-0", f"{ROOT}/{n:012x}/{kind}", 1, False, False, payload, 1 << 20)


class _Console(Daemon):
    name = "console"

    def __init__(self, folder):
        super().__init__(folder / self.name)
        words = ["--data", folder, "--root", ROOT, "--listen", self.port, "--reading", "temperature"]
        self.argv = [sys.executable, "-m", "inflight_tools", "serve", *map(str, words)]

    def page(self, path):
        """Its text, "" while there are no figures."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{path}", timeout=self.patience_s) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as e:
            if e.code != 503:
                raise
            return ""


def measure(folder, devices):
    """Asks for each page in turn, until the figures of the fleet were computed again. A device has four messages."""
    at = int(time.time() - 60) * 1000
    land(folder / "read", itertools.chain(_starts(devices, at), deliveries(2 * devices, devices, 2 * devices, at)))
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
    with _Console(folder) as console:
        first_s, _ = timed(console.wait, lambda: console.page(""))
        whole_s, _ = timed(console.wait, lambda: 'id="waits"' not in console.page(pages["a device"]))
        before = console.page("fresh")
        device.say(str(folder / "tables"), "note", name, "behind the stove", False)
        while console.page("fresh") == before:
            for page, path in pages.items():
                found[page].append(1000 * timed(console.page, path)[0])
        _, memory = peak(console.process.pid)
    figures = {
        f"{page}, ms: half, 95 %, all of {len(ms):,} within": ", ".join(
            f"{one:,.0f}" for one in (*statistics.quantiles(ms, n=20)[9::9], max(ms))
        )
        for page, ms in found.items()
    }
    figures |= {"until the first figures, s": first_s, "until all of a device is read, s": whole_s}
    return {f"{devices:,} devices": figures | {"peak memory, MB": memory / 1e6}}
