"""Takes the picture of the set-up for the documentation: `python -m tools.demo.setup_png`.

A MicroPython process without a configuration serves the page. Chromium shows it as a phone does."""

import contextlib
import json
import os
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import typer

from inflight_tools.cache import write_atomic
from tools.demo.sensors import HEAP, best_runtime
from tools.patience import Patience
from tools.peers.chromium import Chromium
from tools.peers.daemon import held_port
from tools.runtimes.device_run import application_environment
from tools.setup.common import CHECKOUT

_WIDTH = 390
_PATIENCE_S = 60
_NETWORKS = [{"ssid": "home", "key": "-", "rssi": -51}, {"ssid": "neighbour", "key": "-", "rssi": -78}]
_ENTERED = {"key": "0123456789", "host": "192.168.1.10", "user": "attic-1", "password": "01234567", "device": "attic-1"}


@contextlib.contextmanager
def device():
    """A device that waits for its set-up. Yields the URL of its page. Raises RuntimeError if it does not serve it."""
    found = best_runtime()
    folder = tempfile.TemporaryDirectory()
    page = held_port(folder)
    with folder as home:
        (Path(home) / "networks.json").write_text(json.dumps(_NETWORKS))
        own = {"INFLIGHT_HOME": home, "INFLIGHT_DEVICE_ID": "a1b2c3", "INFLIGHT_SETUP": f"{page}:0"}
        process = subprocess.Popen(
            [*found.command(HEAP), "-m", "main"],
            env={**os.environ, **application_environment(found), **own},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        try:
            url = f"http://127.0.0.1:{page}/"
            _wait(url, process)
            yield url
        finally:
            process.kill()
            process.communicate()


def _wait(url, process):
    patience = Patience(_PATIENCE_S)
    while True:
        try:
            return urllib.request.urlopen(url, timeout=_PATIENCE_S).close()
        except OSError:
            if process.poll() is not None or patience.over(0):
                raise RuntimeError("the device does not serve its page") from None
            time.sleep(0.05)


def picture(browser, url):
    """The PNG of the page at `url` when a person has filled the form."""
    page = browser.open(url, width=_WIDTH)
    page.resize(_WIDTH, 100)  # the picture ends where the page does
    for name, text in _ENTERED.items():
        page.ask(f"document.querySelector('[name={name}]').value = {json.dumps(text)}")
    return page.picture()


def main(out: Path = typer.Option(CHECKOUT / "docs/setup.png", help="the picture")):
    """Takes the picture of the set-up for the documentation."""
    with tempfile.TemporaryDirectory() as profile, device() as url, Chromium(profile) as browser:
        write_atomic(out, picture(browser, url))
    print(f"{out}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    typer.run(main)
