"""This machine as a sensor, or as several: the firmware on MicroPython, with a home folder for each device."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from inflight_tools.cache import write_private
from inflight_tools.settings import configured
from tools.demo.sensors import HEAP, best_runtime
from tools.runtimes.device_run import application

_AGAIN = 75  # how the unix board says that it wants to be started again
# Without the current folder: what is in it is no part of the firmware, whatever its name.
_START = "import sys; sys.path.pop(0); import main"


def main(
    config: Annotated[Path | None, typer.Option(help="its configuration; the last one by default")] = None,
    device: Annotated[str | None, typer.Option(help="its name, by default that in --config or the file's")] = None,
):
    """Runs until Ctrl-C. The home of a device is ~/.inflight/<name>, or INFLIGHT_HOME: its journal, and its
    configuration with what commands have changed. Another --config than at the start before replaces that."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        text, home = _told(config, device)
    except (OSError, ValueError) as e:
        raise typer.BadParameter(str(e)) from None
    with _alone(home) as lock, tempfile.TemporaryDirectory() as folder:
        if config:
            _give(home, text)
        code = shutil.copytree(application(), Path(folder) / "code")
        command = [*best_runtime().command(HEAP), "-c", _START]
        env = dict(os.environ, MICROPYPATH=str(code), INFLIGHT_HOME=str(home))
        status = _AGAIN
        while status == _AGAIN:
            try:
                status = subprocess.run(command, env=env, pass_fds=[lock]).returncode
            except KeyboardInterrupt:
                status = 0
    raise typer.Exit(status)


def _interrupt(*_):
    raise KeyboardInterrupt  # the device ends with this process


def _told(config, device):
    """(the configuration that is given, a text; the home folder of its device). ValueError."""
    if not (config or device):
        raise ValueError("which device? make sensor CONFIG=config.json, or DEVICE=name of one that has run here")
    given = config.read_text("utf-8-sig") if config else '{"host": "-"}'
    configured(given)
    fields = json.loads(given)
    device = device or fields.get("device") or config.stem
    text = json.dumps(fields | {"device": device})
    configured(text)
    if device in (".", ".."):
        raise ValueError(f"{device} names no folder of its own: choose another DEVICE=")
    home = Path(os.environ.get("INFLIGHT_HOME") or Path.home() / ".inflight" / device)
    own = home / "config.json"
    if not (config or own.exists()):
        raise ValueError(f"no device {device} in {home}: make sensor CONFIG=config.json DEVICE={device}")
    if own.exists() and (of := json.loads(own.read_text()).get("device")) != device:
        raise ValueError(f"{home} is the home of {of}: run make sensor DEVICE={of}, or name another INFLIGHT_HOME")
    return text, home


def _give(home, text):
    """The device, which does not run, gets the configuration `text`, unless it had that at the start before."""
    own, first = home / "config.json", home / "given.json"
    if not (own.exists() and first.exists() and first.read_text() == text):
        for end in (".new", ".try"):  # of commands
            Path(f"{own}{end}").unlink(missing_ok=True)
        write_private(own, text)
        write_private(first, text)


@contextlib.contextmanager
def _alone(home):
    """Yields a lock that the device has as long as it runs."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise typer.BadParameter(
                f"{home.name} runs already, with {home}: another needs a DEVICE= of its own"
            ) from None
        yield file.fileno()


if __name__ == "__main__":
    typer.run(main)
