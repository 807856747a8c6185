"""This machine as a sensor, or as several: the firmware on MicroPython, with a home folder for each device."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

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
    try:
        given = config and config.read_text("utf-8-sig")
        home = _home(given, device or _name(given) or (config and config.stem))
    except (OSError, ValueError) as e:
        raise typer.BadParameter(f"{config}: {e}" if config else str(e)) from None
    with _alone(home) as lock, tempfile.TemporaryDirectory() as folder:
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


def _name(given):
    configured(given)
    return json.loads(given).get("device") if given else None


def _home(given, device):
    """The home folder of `device`, ready to start. given: its configuration, a text; None: that of the last start.
    ValueError."""
    if not device:
        raise ValueError("which device? make sensor CONFIG=config.json, or DEVICE=name of one that has run here")
    text = json.dumps((json.loads(given) if given else {"host": "-"}) | {"device": device})
    configured(text)
    home = Path(os.environ.get("INFLIGHT_HOME") or Path.home() / ".inflight" / device)
    own, first = home / "config.json", home / "given.json"
    if own.exists() and (of := json.loads(own.read_text()).get("device")) != device:
        raise ValueError(f"{home} is the home of {of}: run make sensor DEVICE={of}, or name another INFLIGHT_HOME")
    if given and (not own.exists() or not first.exists() or first.read_text() != text):
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        for file in (home / "config.json.new", home / "config.json.try"):
            file.unlink(missing_ok=True)
        for file in (own, first):
            file.touch(0o600)
            file.write_text(text)
    if not own.exists():
        raise ValueError(f"no device {device} in {home}: make sensor CONFIG=config.json DEVICE={device}")
    return home


@contextlib.contextmanager
def _alone(home):
    """Yields a lock that the device has as long as it runs."""
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
