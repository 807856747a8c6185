"""Takes the picture of a device in Home Assistant for the documentation: `python -m tools.home_assistant.picture`.

The device is a MicroPython process with the firmware and the sensor of docs/start.md; its pins are a stand-in. Broker
and access list are those of examples/mosquitto."""

import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

import typer

from inflight_tools.cache import write_atomic
from tools.demo.sensors import HEAP, best_runtime
from tools.peers import mosquitto
from tools.peers.chromium import Chromium
from tools.peers.home_assistant import HomeAssistant
from tools.runtimes.device_run import application
from tools.setup.common import CHECKOUT

DEVICE, USER = "attic-1", "homeassistant"
SIZE = 600, 700
_START = """
import sys
import board

class Pin:
    OUT = 1

    def __init__(self, *how, value=0):
        pass

    def value(self, level):
        pass

class DHT22:
    def __init__(self, pin):
        self.buf = b"\\x01\\xe0\\x00\\xd6\\xb7"  # 48.0 %, 21.4 degrees

    def measure(self):
        pass

class hardware:
    pass

hardware.Pin, hardware.DHT22 = Pin, DHT22
for name in ("umachine", "dht"):  # compiled modules call `machine` umachine
    sys.modules[name] = hardware
board.sensors = tuple
import main
"""
_CONFIGURATION = {
    "host": "127.0.0.1",
    "ha": True,
    "user": DEVICE,
    "password": mosquitto.password(DEVICE),
    "interval_ms": 1000,
    "sensors": [{"driver": "dht22", "pin": 4, "name": "attic"}],
    "actuators": [{"driver": "switch", "pin": 5, "name": "fan"}],
}
# Resolves when the page has readings, icons, and what MQTT adds to it, whose logo would come from the internet.
_COMPLETE = """new Promise(ready => {
    const all = root => [...root.querySelectorAll("*")].flatMap(
        one => [one, ...(one.shadowRoot ? all(one.shadowRoot) : [])]);
    (function look() {
        const found = all(document);
        const of = name => found.filter(one => one.localName == name);
        const text = found.map(one => (one.shadowRoot || one).textContent).join();
        const drawn = icon => all(icon.shadowRoot).some(one => one.localName == "path");
        of("img").forEach(one => one.style.visibility = "hidden");
        const last = ["21.4", "MQTT Info", "Free heap"].every(word => text.includes(word)) && of("img").length
            && of("ha-state-icon").length > 5 && of("ha-state-icon").every(drawn);
        requestAnimationFrame(last ? () => ready(0) : look);
    })();
})"""


@contextlib.contextmanager
def device(folder, port):
    """Runs the device; its broker is on `port`."""
    (folder / "config.json").write_text(json.dumps(_CONFIGURATION | {"port": port}))
    own = {"MICROPYPATH": str(application()), "INFLIGHT_HOME": str(folder), "INFLIGHT_DEVICE_ID": DEVICE}
    command = [*best_runtime().command(HEAP), "-c", _START]
    process = subprocess.Popen(command, env={**os.environ, **own}, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def picture(browser, core, api):
    """The PNG of the device's page."""
    (found,) = (one["id"] for one in api.ask("config/device_registry/list") if one["name"] == DEVICE)
    login = {"access_token": core.token, "token_type": "Bearer", "expires": 1e15, "hassUrl": core.url, "clientId": None}
    before = f"localStorage.hassTokens = JSON.stringify({json.dumps(login)})"
    page = browser.open(f"{core.url}/config/devices/device/{found}", *SIZE, before=before)
    page.ask(_COMPLETE)
    return page.picture()


def take():
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        lines = mosquitto.of_a_fleet(folder / "broker", (DEVICE, USER))
        broker = stack.enter_context(mosquitto.Mosquitto(folder / "broker", *lines))
        core = stack.enter_context(HomeAssistant(folder / "home"))
        core.use_broker(broker.port, username=USER, password=mosquitto.password(USER))
        (folder / "device").mkdir()
        stack.enter_context(device(folder / "device", broker.port))
        api = stack.enter_context(core.api())
        api.wait(lambda: api.state("sensor.attic_1_attic_temperature") == "21.4")
        api.do("switch.turn_on", "switch.attic_1_fan")
        api.wait(lambda: api.state("switch.attic_1_fan") == "on")
        browser = stack.enter_context(Chromium(folder / "profile"))
        return picture(browser, core, api)


def main(out: Path = typer.Option(CHECKOUT / "docs/home-assistant.png", help="the picture")):
    """Takes the picture of a device in Home Assistant for the documentation."""
    write_atomic(out, take())
    print(f"{out}: {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    typer.run(main)
