"""`inflight new` and `inflight test`: a project is written, tested as the board unix, taken by the other commands."""

import sys

import pytest

from host_tests.absent import interpreter
from host_tests.tools.command import inflight, succeeded


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def project(here, monkeypatch):
    """The folder of a new project, from which the commands are run."""
    assert inflight("new", "sensor", "moisture").exit_code == 0
    monkeypatch.chdir(here / "moisture")
    return here / "moisture"


def changed(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("name", ["micropython-x64", "micropython-x86", "cpython"])
def test_its_tests_run_as_the_board_unix(project, capfd, name):
    program = interpreter(name).argv[0]
    assert succeeded("test", "--micropython", program).stdout == f"all tests passed, on {program}\n"
    assert capfd.readouterr().out.count("ok test_") == 4
    changed(project / "app/rules.py", "< LIMIT", "> LIMIT")
    failed = inflight("test", "--micropython", program)
    assert failed.exit_code == 1 and f"FAILED: the tests have failed, on {program}" in failed.stderr
    shown, _ = capfd.readouterr()
    assert "FAILED test_the_rule" in shown and "AssertionError" in shown and shown.count("ok test_") == 3


def test_without_micropython_python_runs_them(project, here, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert succeeded("test").stdout == f"all tests passed, on {sys.executable}\n"
    monkeypatch.chdir(here)
    assert succeeded("test", "moisture").stdout == f"all tests passed, on {sys.executable}\n"


def test_what_a_device_would_not_take_is_told_before_the_tests(project):
    changed(project / "app/rules.py", "if name ==", "if name =")
    failed = inflight("test")
    assert failed.exit_code == 1 and "app/rules.py, line 9: SyntaxError" in failed.stderr
    empty = inflight("test", "app")
    assert empty.exit_code == 1 and "no tests in app/tests: `inflight new sensor NAME` writes" in empty.stderr


def test_what_is_written(project):
    """git ignores its secrets; the README has the pins of each board."""
    assert {"config.json", "release.key"} <= {*(project / ".gitignore").read_text().splitlines()}
    text = (project / "README.md").read_text()
    assert "| ESP32-C3 | 0-5 |" in text and "| Raspberry Pi Pico W | 26-28 |" in text
    assert "template" not in text and "PINS" not in text


@pytest.mark.parametrize("name", ["", "Attic", "2attic", "at-tic", "../attic", "é", "a" * 33, "bme280", "dht", "dht22"])
def test_a_name_that_a_driver_cannot_have(here, name):
    """That of no module, or that of a driver of the firmware."""
    failed = inflight("new", "sensor", name)
    if name in ("bme280", "dht", "dht22"):
        assert failed.exit_code == 1 and f"{name}: the firmware has a driver of this name" in failed.stderr
    else:
        assert failed.exit_code == 2 and "write small letters, digits and _" in failed.output
    assert not [*here.iterdir()]


def test_a_folder_that_exists_is_left_alone(here):
    (here / "moisture").mkdir()
    (here / "attic").write_text("mine")
    (here / "link").symlink_to("nowhere")
    for name in ("moisture", "attic", "link"):
        failed = inflight("new", "sensor", name)
        assert failed.exit_code == 1 and f"{name} is there already" in failed.stderr
    assert not [*(here / "moisture").iterdir()] and (here / "attic").read_text() == "mine"
