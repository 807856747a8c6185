"""`make flash` with esptool and the chip's own ROM, and `make monitor`, over the emulated serial line."""

import asyncio
import os
import signal
import subprocess

import pytest

from host_tests.emulated_boards.test_deploy import SILENCE_S
from host_tests.processes import INFLIGHT
from tools.emulators.esp32 import image, sensor
from tools.emulators.esp32.board import Board
from tools.emulators.esp32.chip import CHIP
from tools.peers.subscriber import Subscriber

pytestmark = [pytest.mark.long("INFLIGHT_ESP32"), pytest.mark.timeout(3600)]
BLANK = b"\xff" * image.FLASH_SIZE
# esptool's own limits are for a chip, not for an emulator on a host that has other work.
PATIENCE = """[esptool]
timeout = 120
sync_timeout = 2
serial_write_timeout = 120
md5_timeout_per_mb = 200
erase_region_timeout_per_mb = 200
erase_write_timeout_per_mb = 200
max_timeout = 900
"""


def flash(folder, *words):
    (folder / "esptool.cfg").write_text(PATIENCE)
    env = os.environ | {"ESPTOOL_CFGFILE": str(folder / "esptool.cfg")}
    return subprocess.run([*INFLIGHT, "board", "flash", *words], capture_output=True, text=True, env=env)


def test_from_a_blank_chip_to_a_sensor_that_is_watched(broker, tmp_path):
    config = tmp_path / "config.json"
    config.write_bytes(sensor.config(broker.port, "flashed", interval_ms=1000, health_ms=2000))
    options = ("--board", CHIP.name, "--firmware", str(image.FIRMWARE.find()), "--sha256", image.FIRMWARE.sha256)
    with Board(BLANK) as board, Subscriber(broker.port, "inflight/flashed/#") as subscriber:
        for made in ("an empty journal", "its journal as it was"):
            board.switch_on(download=True)
            done = flash(tmp_path, *options, "--wait", "0", "--port", board.port, "--config", str(config))
            assert done.returncode == 0 and made in done.stdout, done.stdout + done.stderr
            board.switch_off()
            known = len(subscriber.messages)
            board.switch_on()
            numbered = lambda known=known: [one for one in subscriber.messages[known:] if "seq" in one.fields]  # noqa: E731
            asyncio.run(board.until(numbered, SILENCE_S, "a message"))
            board.switch_off()
        assert len({one.fields["epoch"] for one in subscriber.messages if "seq" in one.fields}) == 1
        board.switch_on()
        place = ("--port", board.port, "--config", str(config), "--broker", f"127.0.0.1:{broker.port}")
        with subprocess.Popen([*INFLIGHT, "board", "monitor", *place], stdout=subprocess.PIPE, text=True) as monitor:
            try:
                said = [monitor.stdout.readline()]
                for wanted in ("listening to", "rst:", "state=online", "heap="):
                    while wanted not in said[-1]:
                        said.append(monitor.stdout.readline())
                        assert said[-1], "monitor has ended"
                    if wanted == "listening to":
                        board.reset()
                monitor.send_signal(signal.SIGINT)
                assert monitor.wait(30) == 0
            finally:
                monitor.kill()
