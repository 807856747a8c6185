"""This machine as a sensor: the firmware on MicroPython, with the configuration file given."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import typer

from tools.demo.sensors import HEAP, best_runtime
from tools.runtimes.device_run import application

_AGAIN = 75  # how the unix board says that it wants to be started again
# Without the current folder: what is in it is no part of the firmware, whatever its name.
_START = "import sys; sys.path.pop(0); import main"


def main(config: Path):
    """Runs until Ctrl-C. The journal stands in ~/.inflight/<device>, beside a copy of CONFIG."""
    if not config.is_file():
        raise typer.BadParameter(f"no file {config}: write one, docs/configuration.md tells the fields")
    home = Path(os.environ.get("INFLIGHT_HOME") or Path.home() / ".inflight" / config.stem)
    home.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(config, home / "config.json")
    with tempfile.TemporaryDirectory() as folder:
        code = shutil.copytree(application(), Path(folder) / "code")
        command = [*best_runtime().command(HEAP), "-c", _START]
        env = dict(os.environ, MICROPYPATH=str(code), INFLIGHT_HOME=str(home))
        status = _AGAIN
        while status == _AGAIN:
            try:
                status = subprocess.run(command, env=env).returncode
            except KeyboardInterrupt:
                status = 0
    raise typer.Exit(status)


if __name__ == "__main__":
    typer.run(main)
