"""The command `inflight fleet service`: units, with which systemd keeps collector, tables and console running, or
containers."""

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from inflight_tools import options
from inflight_tools.broker import PASSWORD, find_broker, words_of
from inflight_tools.cache import write_below
from inflight_tools.fleet import compose
from inflight_tools.fleet.monitoring.address import address, both
from inflight_tools.output import WrongArgument, failing, show

_STATE = Path("/var/lib")  # where systemd makes a folder itself
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
_SPECIAL = re.compile(r"[^\w./=@,+:-]")
_UNIT = Path(__file__).parent / "templates/unit.service"


def service(
    at: options.BrokerOptions,
    folder: Annotated[Path, typer.Argument(help="is made if it is missing; its files are replaced")] = Path(
        "build/service"
    ),
    data: options.Data = _STATE / "inflight",
    run_as: Annotated[str, typer.Option(help="user of this machine that the units run as")] = "inflight",
    listen: Annotated[str, typer.Option(help="[host:]port of the console")] = "8470",
    metrics: options.BothMetrics = "9464",
    containers: Annotated[
        bool,
        typer.Option("--compose", help="write compose.yaml and a Dockerfile instead; a broker on loopback is in it"),
    ] = False,
):
    """Writes units for systemd, for /etc/systemd/system, or a compose file: collector, `tables`, and the console of
    tables. Each starts again when it ends, may write to the folder of the data alone, and ends at SIGTERM when its work
    is safe."""
    with failing(ValueError, OSError):
        if os.environ.get(PASSWORD) and not at.password_file:
            raise ValueError(f"the units do not have {PASSWORD}: write it into a file, for --password-file")
        broker, _ = find_broker(at)
        root, (of_collector, of_tables) = broker.root, both(metrics)
        places = {"collect": of_collector, "tables": of_tables, "serve": listen}
        places = {name: address(place, "--listen") for name, place in places.items()}
        if not _USER.fullmatch(run_as):
            raise WrongArgument(f"--run-as {run_as}: the name of a user of this machine")
        data = Path(os.path.normpath(data.absolute()))
        of_data = ["--data", str(data), "--root", root]
        landing = ["--landing", str(data / "landing")]
        started = {
            "collect": ["fleet", "collect", *landing, "--metrics", of_collector, *words_of(at, root)],
            "tables": ["fleet", "tables", *of_data, "--metrics", of_tables],
            "serve": ["serve", *of_data, "--listen", listen],
        }
        if containers:
            secrets = [one.absolute() for one in vars(at).values() if isinstance(one, Path)]
            files = compose.files(started, data, broker, secrets, places)
        else:
            files = {f"inflight-{name}.service": _unit(name, words, data, run_as) for name, words in started.items()}
        write_below(folder, {name: text.encode() for name, text in files.items()})
    here, of_fleet = shlex.quote(str(folder)), shlex.quote(str(data))
    steps = [
        f"sudo useradd --system {run_as}; sudo install -d -o {run_as} {of_fleet}",
        f"sudo cp {here}/*.service /etc/systemd/system/",
        f"sudo systemctl enable --now inflight-{' inflight-'.join(started)}",
    ]
    show("\n".join(compose.steps(here, of_fleet, broker) if containers else steps))


def _unit(name, words, data, user):
    program = shutil.which("inflight")
    command = [os.path.abspath(program)] if program else [sys.executable, "-m", "inflight_tools"]
    java = [f"JAVA_HOME={os.environ['JAVA_HOME']}"] if os.environ.get("JAVA_HOME") else []
    if data.is_relative_to(_STATE) and data != _STATE and ":" not in str(data):
        setting, place = "StateDirectory", data.relative_to(_STATE)
    else:
        setting, place = "ReadWritePaths", data
    return _UNIT.read_text().format(
        name=name,
        command=" ".join(map(_quoted, [*command, *words])).replace("$", "$$"),
        user=user,
        writes=f"{setting}={_quoted(str(place))}",
        environment=" ".join(map(_quoted, ["INFLIGHT_CACHE=/var/cache/inflight", *java])),
    )


def _quoted(word):
    # As systemd has it.
    if not word.isprintable():
        raise ValueError(f"{word!r}: systemd takes printable characters alone")
    return json.dumps(word.replace("%", "%%"), ensure_ascii=False) if _SPECIAL.search(word) else word
