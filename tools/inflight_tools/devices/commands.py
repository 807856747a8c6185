"""The commands `inflight device ...`."""

import contextlib
import glob
import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from inflight_tools import devices, options
from inflight_tools.boards.device.link import DeviceError
from inflight_tools.broker import find_broker
from inflight_tools.cache import write_private
from inflight_tools.devices import change, tables
from inflight_tools.devices.roster import KINDS, ONLINE, Connection, later
from inflight_tools.group import Group
from inflight_tools.output import WrongArgument, failing
from inflight_tools.output import show as say
from inflight_tools.update import release as releases
from inflight_tools.update.rollout import PATIENCE_H, Patience, conclude, roll_out
from inflight_tools.visible import visible

app = Group("device", help=devices.__doc__)
Name = Annotated[str, typer.Argument(help="a device, as in its topics, or how its name alone begins")]

_TIMES = {"min": 0.1, "max": 86_400}
Timeout = Annotated[float, typer.Option(**_TIMES, help="seconds to wait for readings and health")]
AnswerTimeout = Annotated[float, typer.Option(**_TIMES, help="seconds to wait for the device's answer")]
Yes = Annotated[bool, typer.Option("--yes", help="do not ask before the change is sent")]


@contextlib.contextmanager
def _connected(at, *kinds):
    """Yields a Connection to a broker that knows devices."""
    with failing(ValueError, DeviceError, OSError), Connection(find_broker(at)[0], *kinds) as found:
        if not found.roster.devices:
            raise ValueError(f"no devices at {found.broker.root}/+/status on {found.broker.place}")
        yield found


def _known(at, device):
    """The configuration of a Device, if --config is its own, else None."""
    fields = json.loads(at.config.read_text("utf-8-sig")) if at.config else {}
    return fields if fields.get("device") == device.name else None


def _note(text):
    Console(stderr=True).print(visible(text), markup=False, highlight=False, soft_wrap=True)


def _found(connection, name):
    """The Device of that name. Tells what becomes of a command that it does not receive now."""
    device = connection.roster.find(name)
    if device.state != ONLINE:
        _note(f"{device.name}: {later(device)}")
    return device


@app.add("list --broker broker.example")
def list_(at: options.BrokerOptions, timeout: Timeout = 11, as_json: options.Json = False):
    """Lists the devices at a broker: state, version, last reading, what is wrong. It ends when each device that is
    online has told readings and health, or after --timeout."""
    with _connected(at, *KINDS[2:]) as connection:
        roster = connection.roster
        roster.wait(lambda: all(device.has_told_all for device in roster.devices.values()), timeout)
        found = roster.devices.values()
    if as_json:
        for device in found:
            print(json.dumps(tables.facts(device)))
    else:
        Console().print(tables.of_all(found))


@app.add("show attic --broker broker.example")
def show(name: Name, at: options.BrokerOptions, timeout: Timeout = 11, as_json: options.Json = False):
    """Shows one device: as `list`, with its journal, and with --config of its own file its configuration without
    secrets."""
    with _connected(at, *KINDS[2:]) as connection:
        device = connection.roster.find(name)
        connection.roster.wait(lambda: device.has_told_all, timeout)
        known = _known(at, device)
    configuration = known and change.without_secrets(known)
    if as_json:
        more = {"health": device.health or None, "configuration": configuration}
        print(json.dumps(tables.facts(device) | more))
    else:
        Console().print(tables.of_one(device, configuration))


def _change(connection, known, device, fields, yes, timeout):
    """Checks a change, shows it, asks, sends it, and waits until the device is there with it. known: the configuration
    before, if it is known."""
    for problem in change.check(fields, device.name, known):
        _note(f"this was wrong before, and stays so: {problem}")
    for line in change.described(fields, known):
        say(visible(line))
    if not yes:
        typer.confirm(f"Change {visible(device.name)}, which restarts then?", abort=True, err=True)
    change.send(connection, device, fields, timeout)
    say(f"{visible(device.name)} has taken the change, and is there again")


@app.add("set attic interval_ms=5000 ha=true --broker broker.example")
def set_(
    name: Name,
    fields: Annotated[list[str], typer.Argument(help="field=value; field=null removes it")],
    at: options.BrokerOptions,
    yes: Yes = False,
    timeout: AnswerTimeout = 30,
):
    """Changes fields of a device's configuration: checks them as the device does, shows what changes, asks, and waits
    until the device has restarted with the change. With --config of its own file it shows the old values too; the file
    stays as it is. A secret without its value, wifi_key=, is asked for and not shown."""
    with _connected(at) as connection:
        device = _found(connection, name)

        def ask(field):
            return typer.prompt(visible(field), hide_input=True, confirmation_prompt=True, err=True)

        _change(connection, _known(at, device), device, change.read(fields, ask), yes, timeout)


@app.add("backup attic attic.json --broker broker.example")
def backup(
    name: Name,
    file: Annotated[Path, typer.Argument(help="a new file for its configuration")],
    at: options.BrokerOptions,
    timeout: AnswerTimeout = 30,
):
    """Writes the configuration that a device has now into a new file, for `restore`. A device tells no secrets, so it
    is without password, wifi_key, wifi_networks and setup."""
    with _connected(at) as connection:
        device = _found(connection, name)
        if file.exists():
            raise WrongArgument(f"{file} is there already, perhaps with secrets: name a new file")
        found = {"device": device.name} | connection.configuration(device, timeout)
        write_private(file, json.dumps(found, indent=2, ensure_ascii=False) + "\n")
        say(f"{file}: {len(found)} fields of {visible(device.name)}")


@app.add("restore attic attic.json --broker broker.example")
def restore(
    name: Name,
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="a configuration file of the device")],
    at: options.BrokerOptions,
    yes: Yes = False,
    timeout: AnswerTimeout = 30,
):
    """Gives a device the configuration in a file, as `set` does: it sends what differs. Secrets that the file does not
    have stay as they are, and so do the fields that only a cable changes: tls_..., update_keys, setup. To a device that
    is not online it sends all fields of the file, and others stay."""
    with _connected(at) as connection:
        device = _found(connection, name)
        try:
            given = json.loads(file.read_text("utf-8-sig"))
        except ValueError:
            given = None
        if not isinstance(given, dict):
            raise WrongArgument(f"{file}: not JSON, or no object")
        if (of := given.pop("device", device.name)) != device.name:
            raise WrongArgument(f"{file} is of the device {of}, not of {device.name}")
        known = connection.configuration(device, timeout) if device.state == ONLINE else {}
        known.pop("device", None)
        fields = change.differing(dict.fromkeys(known) | given, known)
        kept = list(filter(change.by_cable, fields))
        if kept:
            _note(f"not sent, since only a cable changes them: {', '.join(kept)}")
        fields = {field: value for field, value in fields.items() if field not in kept}
        if not fields:
            say(f"{visible(device.name)} has this configuration already")
            return
        _change(connection, known or _known(at, device), device, fields, yes, timeout)


@app.add("log attic --broker broker.example")
def log(name: Name, at: options.BrokerOptions, timeout: AnswerTimeout = 30, as_json: options.Json = False):
    """Prints the last lines of a device's log: seconds since its start, level, text."""
    with _connected(at) as connection:
        device = _found(connection, name)
        lines = connection.log(device, timeout)
    if as_json:
        print(json.dumps({"device": device.name, "lines": lines}))
        return
    for line in lines:
        say(visible(line))


@app.add("restart attic --broker broker.example")
def restart(name: Name, at: options.BrokerOptions, timeout: AnswerTimeout = 30):
    """Restarts a device when all its messages are delivered, and waits until it is there again."""
    with _connected(at) as connection:
        device = _found(connection, name)
        connection.restart(device, timeout)
        say(f"{visible(device.name)} has restarted")


@app.add("update attic build/pico_w-7.release --broker broker.example")
def update(
    name: Name,
    release: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="file of `inflight release`")],
    at: options.BrokerOptions,
    patience: Patience = PATIENCE_H,
    as_json: options.Json = False,
):
    """Rolls a release out to one device, as `inflight rollout` does."""
    console = Console(stderr=as_json)
    with _connected(at) as connection:
        device = connection.roster.find(name)
    with failing():
        image = releases.load(release)
        only = [glob.escape(device.name)]
        found = roll_out(console, connection.broker, image, only, as_json, patience)
    conclude(console, image, as_json, *found)
