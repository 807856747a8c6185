"""The package that `inflight board library` makes, on the stock firmware: the first program of the README runs."""

import json

import pytest
from typer.testing import CliRunner

from host_tests.docs.pages import first_program
from inflight_tools.cli import build
from tools.peers.subscriber import Subscriber

pytestmark = pytest.mark.timeout(3600)


def package(folder, variant):
    """{path on the board: content} of what mip installs."""
    made = CliRunner().invoke(build(), ["board", "library", str(folder), "--board", variant], catch_exceptions=False)
    assert made.exit_code == 0, made.output
    places = json.loads((folder / "package.json").read_text())["urls"]
    return {f"/lib/{place}": (folder / source).read_bytes() for place, source in places}


def program(host, port, wifi_ssid, wifi_key="", **_):
    """The program of the README, with this broker and this network."""
    own = '"home", "secret"'
    text = first_program("README.md", host, port)
    assert text.count(own) == 1
    return text.replace(own, f"{wifi_ssid!r}, {wifi_key!r}")


def test_the_first_program_of_the_readme(emulated, broker, tmp_path):
    given = json.loads(emulated.SENSOR.config(broker.port, "attic-1"))
    files = package(tmp_path, emulated.VARIANT)
    files["/main.py"] = program(**given).encode()

    async def work(board):
        with Subscriber(broker.port, "attic/#") as subscriber:
            found = await board.until(lambda: subscriber.find("attic/temperature"), 600, "the reading")
            subscriber.publish("attic/set", "22", qos=2)
            await board.until(lambda: b"attic/set b'22'" in bytes(board.console), 120, "the handler's line")
            return found

    (message,), _ = emulated.cold(emulated.installed(files), work)
    assert (message.payload, message.qos) == (b"21.4", 1)
