"""Which board is meant: the commands for a board that runs find it, and its port, by themselves."""

import json
from types import SimpleNamespace

import pytest

from host_tests.tools.boards.standin import StandIn
from host_tests.tools.command import inflight, succeeded
from inflight_tools.boards import deploy
from inflight_tools.boards.connected import running_board, running_port
from inflight_tools.boards.device.link import Link
from inflight_tools.boards.images.variants import names

PICO = 0x2E8A


def test_the_port_of_the_board_that_is_named(connect):
    connect(("/dev/ttyUSB0", 0x10C4), ("/dev/ttyACM0", PICO))
    found = [running_port(board) for board in ("esp32c3", "pico_w", "rp2040")]
    assert found == ["/dev/ttyUSB0", "/dev/ttyACM0", "/dev/ttyACM0"]
    with pytest.raises(ValueError, match="There are /dev/ttyUSB0, /dev/ttyACM0: name one with --port"):
        running_port()
    connect(("/dev/ttyACM0", PICO))
    assert running_port() == "/dev/ttyACM0"
    with pytest.raises(ValueError, match="no board on a port of USB: connect it, or name its port with --port"):
        running_port("esp32")
    connect()
    for words in (["deploy"], ["monitor"], ["library", "--remove"]):
        done = inflight("board", *words)
        assert done.exit_code == 1 and "no board on a port of USB: connect it" in done.output


@pytest.mark.parametrize(
    ("platform", "machine", "board"),
    [
        ("rp2", "Raspberry Pi Pico W with RP2040", "pico_w"),
        ("rp2", "Raspberry Pi Pico 2 W with RP2350", "pico2_w"),
        ("rp2", "Feather RP2040 with RP2040", "rp2040"),
        ("esp32", "Generic ESP32 module with ESP32", "esp32"),
        ("esp32", "Generic ESP32S3 module with ESP32S3", "esp32s3"),
        ("esp32", "LOLIN_C3_MINI with ESP32-C3FH4", "esp32c3"),
        ("linux", "linux [GCC 12.2.0] version", "unix"),
        ("stm32", "PYBv1.1 with STM32F405RG", None),
    ],
)
def test_a_board_tells_what_it_is(platform, machine, board):
    link = SimpleNamespace(run=lambda code: repr(("micropython", (1, 25, 0), platform, machine, [], None)))
    if board:
        assert running_board(link) == board
    else:
        with pytest.raises(ValueError, match=f"the board is {machine}, with stm32: --board takes {names()[0]}, "):
            running_board(link)


def test_deploy_without_words(tmp_path, connect, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(deploy, "files", lambda board, **of: {"/boot.py": b"", "/main.py": board.encode()})
    (tmp_path / "config.json").write_text(json.dumps({"host": "broker.example"}))
    with StandIn(tmp_path, platform="rp2", machine="Raspberry Pi Pico W with RP2040") as there:
        connect((there.port, PICO))
        done = succeeded("board", "deploy", "--config", "config.json", "--wait", 0)
        assert f"pico_w on {there.port}" in done.stdout
        with Link(there.port) as link:
            assert link.run("print(open('/main.py').read())").strip() == "rp2040"
