"""The pictures of the documentation: `python -m tools.pictures NAME...`: demo and report (of one run of `make demo`),
setup, and home-assistant (which `make test-home-assistant` installs). Each is a file of docs/."""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import typer
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from inflight_tools.cache import write_atomic
from tools.demo.__main__ import REPORT
from tools.demo.sensors import HEAP, Sensor, best_runtime
from tools.peers import mosquitto
from tools.peers.chromium import Chromium
from tools.peers.daemon import Daemon
from tools.peers.home_assistant import HomeAssistant
from tools.runtimes.device_run import application, application_environment
from tools.setup.common import CHECKOUT

_COLUMNS = 88
_FONTS = re.compile(r"@font-face \{\{.*?\}\}\n", re.S)  # of rich: they would come from the internet
_REPORT_PX = 1120, 680
_PHONE_PX = 390
_NETWORKS = [{"ssid": "home", "key": "-", "rssi": -51}, {"ssid": "neighbour", "key": "-", "rssi": -78}]
_ENTERED = {"key": "0123456789", "host": "192.168.1.10", "user": "attic-1", "password": "01234567", "device": "attic-1"}
HOME_ASSISTANT_PX = 600, 700
_DEVICE, _USER = "attic-1", "homeassistant"
# The sensor of docs/start.md: its pins are a stand-in. Compiled modules call `machine` umachine.
_START = """
import sys
import board

class Hardware:
    OUT = 1
    buf = b"\\x01\\xe0\\x00\\xd6\\xb7"  # 48.0 %, 21.4 degrees

    def __init__(self, *how, value=0):
        pass

    def value(self, level):
        pass

    def measure(self):
        pass

Hardware.Pin = Hardware.DHT22 = Hardware
sys.modules["umachine"] = sys.modules["dht"] = Hardware
board.sensors = tuple
import main
"""
_FIELDS = {
    "ha": True,
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


def demo():
    """The output of a demonstration as SVG. RuntimeError if it lost something."""
    command = [sys.executable, "-u", "-m", "tools.demo"]
    env = {**os.environ, "COLUMNS": str(_COLUMNS), "FORCE_COLOR": "1"}
    done = subprocess.run(command, cwd=CHECKOUT, env=env, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"no demonstration that lost nothing:\n{done.stdout}")
    return terminal("make demo", done.stdout.replace(f"{CHECKOUT}/", ""))


def terminal(title, printed):
    """The SVG of a terminal that shows what a command printed."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(printed))
    return console.export_svg(title=title, code_format=_FONTS.sub("", CONSOLE_SVG_FORMAT)).encode()


def report(page=REPORT):
    """The head of the report that the last `make demo` wrote, as PNG."""
    with tempfile.TemporaryDirectory() as profile, Chromium(profile) as browser:
        return browser.open(page.as_uri(), *_REPORT_PX).picture(height=_REPORT_PX[1])


class _Unconfigured(Daemon):
    """A device without a configuration, which serves the page of its set-up."""

    name = "device"

    def __init__(self, folder):
        super().__init__(folder)
        (self.folder / "networks.json").write_text(json.dumps(_NETWORKS))
        found = best_runtime()
        self.argv = [*found.command(HEAP), "-m", "main"]
        own = {"INFLIGHT_HOME": str(folder), "INFLIGHT_DEVICE_ID": "a1b2c3", "INFLIGHT_SETUP": f"{self.port}:0"}
        self.environ = application_environment(found) | own


def setup():
    """The page of the set-up, as a phone shows it when a person has filled the form."""
    with tempfile.TemporaryDirectory() as folder, _Unconfigured(folder) as device, Chromium(f"{folder}/new") as browser:
        page = browser.open(f"http://127.0.0.1:{device.port}/", width=_PHONE_PX)
        page.resize(_PHONE_PX, 100)  # the picture ends where the page does
        for field, text in _ENTERED.items():
            page.ask(f"document.querySelector('[name={field}]').value = {json.dumps(text)}")
        return page.picture()


def home_assistant():
    """A device in Home Assistant. Broker and access list are those of examples/mosquitto."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        lines = mosquitto.of_a_fleet(folder / "broker", (_DEVICE, _USER))
        broker = stack.enter_context(mosquitto.Mosquitto(folder / "broker", *lines))
        core = stack.enter_context(HomeAssistant(folder / "home"))
        core.use_broker(broker.port, username=_USER, password=mosquitto.password(_USER))
        sensor = Sensor(_DEVICE, folder / "device", application(), best_runtime(), broker.port, 1, 1000, **_FIELDS)
        sensor.on("-c", _START)
        stack.callback(sensor.off)
        api = stack.enter_context(core.api())
        api.wait(lambda: api.state("sensor.attic_1_attic_temperature") == "21.4")
        api.do("switch.turn_on", "switch.attic_1_fan")
        api.wait(lambda: api.state("switch.attic_1_fan") == "on")
        (found,) = (one["id"] for one in api.ask("config/device_registry/list") if one["name"] == _DEVICE)
        login = {"access_token": core.token, "token_type": "Bearer", "expires": 1e15, "hassUrl": core.url}
        before = f"localStorage.hassTokens = JSON.stringify({json.dumps(login | {'clientId': None})})"
        browser = stack.enter_context(Chromium(folder / "profile"))
        page = browser.open(f"{core.url}/config/devices/device/{found}", *HOME_ASSISTANT_PX, before=before)
        page.ask(_COMPLETE)
        return page.picture()


PICTURES = {
    "demo": ("demo.svg", demo),
    "report": ("report.png", report),
    "setup": ("setup.png", setup),
    "home-assistant": ("home-assistant.png", home_assistant),
}


def main(names: list[str], folder: Path = CHECKOUT / "docs"):
    """Makes these pictures of the documentation: demo, report, setup, home-assistant."""
    if unknown := set(names) - set(PICTURES):
        raise typer.BadParameter(f"no picture {min(unknown)}: there are {', '.join(PICTURES)}")
    for name in names:
        file, make = PICTURES[name]
        write_atomic(folder / file, make())
        print(folder / file)


if __name__ == "__main__":
    typer.run(main)
