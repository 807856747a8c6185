"""CONTRIBUTING: the path of a message names files; the steps make a command, and a board that runs."""

import os
import re
import shutil
import types

from typer.testing import CliRunner

from host_tests.broker import PATIENCE_S, Automatic
from host_tests.docs.pages import CHECKOUT, blocks
from host_tests.firmware.conftest import Machine
from host_tests.waiting import wait_for
from inflight_tools.boards import image
from inflight_tools.group import Group
from tools.runtimes import device_run, runtime

PAGE = CHECKOUT / "CONTRIBUTING.md"
PATH = PAGE.read_text().split("## The path of a message\n")[1].split("\n## ")[0]


def test_the_path_of_a_message():
    """A file without its folder is in the folder of the file before it, or in the one above."""
    folder, steps = CHECKOUT, re.findall(r"^\d\. .*$", PATH, re.M)
    assert 5 < len(steps) <= 10
    for name in re.findall(r"`([\w/]+\.py)`", PATH):
        found = [place / name for place in (CHECKOUT, folder, *folder.parents) if (place / name).is_file()]
        assert found, name
        folder = found[0].parent


def test_a_command():
    module = types.ModuleType("inflight_tools.boards.hello")
    exec(next(block.text for block in blocks("python") if block.page == PAGE), module.__dict__)
    app = Group("board")
    app.add("hello --board esp32")(module.main)
    app.add("image")(image.main)  # one command alone would have no name
    run = lambda *words: CliRunner().invoke(app, words, env={"COLUMNS": "200"})  # noqa: E731
    assert run("hello", "--board", "esp32").stdout == "Hello, esp32\n"
    assert run("hello", "--board", "esp8266").exit_code == 2
    assert "Example: inflight board hello --board esp32" in run("hello", "--help").stdout


def test_a_board(tmp_path):
    """A copy of the most similar board under another name runs the firmware."""
    folder = shutil.copytree(CHECKOUT / "boards/unix", tmp_path / "attic")
    code = (folder / "board.py").read_text()
    (folder / "board.py").write_text(code.replace('NAME = "unix"', 'NAME = "attic"'))
    machine = Machine(tmp_path, runtime("cpython"))
    usual = device_run.application_environment(machine.found)["PYTHONPATH"]
    machine.environment = {"PYTHONPATH": f"{folder}{os.pathsep}{usual}"}
    with Automatic() as broker:
        machine.configure(port=broker.port)
        machine.start()
        try:
            wait_for(lambda: any(b'"attic"' in payload for payload in broker.payloads()), PATIENCE_S, broker.payloads)
        finally:
            machine.kill()
