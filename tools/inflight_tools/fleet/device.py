"""What you know of devices, and no message says: report, check, console and metrics go by it."""

import re
import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from inflight_tools import options
from inflight_tools.fleet.locations import location, present
from inflight_tools.fleet.query.errors import querying
from inflight_tools.fleet.query.times import UNITS
from inflight_tools.fleet.spark.storage import files_in
from inflight_tools.group import Group
from inflight_tools.output import show
from inflight_tools.visible import visible

app = Group("fleet", "device", help=__doc__)
Name = Annotated[str, typer.Argument(help="the device, as in its topics")]
Undo = Annotated[bool, typer.Option("--undo", help="forget it again")]
_INTERVAL = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS = {"s": 1} | UNITS


class Missing(ValueError):
    """The text says what has to be written."""


def _seconds(text):
    found = _INTERVAL.fullmatch(text or "")
    return found and int(found[1]) * _SECONDS[found[2]]


# {command: (field of the registry, its value by the argument or None, what has to be written)}
COMMANDS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "retire": ("retired", lambda _: time.time(), ""),
    "expect": ("interval_s", _seconds, "an interval, for example 30s, 10m, 24h or 7d"),
    "group": ("group", str, "a group"),
    "note": ("note", str, "a text"),
    "rename": ("renamed", str, "the new name"),
}


def say(root, command, name, text=None, undo=False):
    """Does what a command of this group says of a device, of the tables in the folder `root`; undo: forgets it. Raises
    Missing, ValueError, WrongTables, Busy, OSError."""
    from inflight_tools.fleet import registry
    from inflight_tools.fleet.query.registration import change, rename

    field, read, needed = COMMANDS[command]
    value = None if undo else read(text or "")
    if text if undo else not value:
        raise Missing(needed)
    if value and field == registry.RENAMED:
        rename(root, name, value)
    else:
        change(root, name, field, value)


def _place(data, of):
    place = location(data, of, "tables")
    present(place, "name that of `inflight fleet tables` with --data or --of")
    return place


def _say(command, name, value, data, of, undo):
    with querying():
        try:
            say(_place(data, of), command, name, value, undo)
        except Missing as e:
            raise typer.BadParameter(f"write {e}, or --undo", param_hint="'value'") from None


@app.add("retire attic --data telemetry")
def retire(name: Name, data: options.Data = options.DATA, of: options.Tables = None, undo: Undo = False):
    """A device was taken away: from now on it is not silent, nor is the end of its messages unknown. Its history stays,
    and when it sends again it is one like the others."""
    _say("retire", name, None, data, of, undo)


def _add(example, argument, text):
    """Adds a command. argument: help of its argument."""
    command = example.split()[0]

    @app.add(f"{example} --data telemetry", help=text)
    def run(
        name: Name,
        value: Annotated[str | None, typer.Argument(help=argument)] = None,
        data: options.Data = options.DATA,
        of: options.Tables = None,
        undo: Undo = False,
    ):
        _say(command, name, value, data, of, undo)


_add(
    "rename attic loft",
    "its name from now on",
    "A device has another name: what it sent under the old one counts for the new one. Without the old journal, what "
    "that had not sent is given up.",
)
_add(
    "expect attic 24h",
    "30s, 10m, 24h, 7d",
    "How often a device sends: it is silent when three times as long has passed, and ten minutes. Without this, its "
    "mean counts, or what it said before it slept.",
)
_GROUP = "The group of a device in report, metrics and alerts, in place of that in its configuration."
_add("group attic north", "the group", _GROUP)
_add("note attic 'behind the stove'", "for people", "A line for people, on the device's page and in the report.")


@app.add("list --data telemetry")
def list(data: options.Data = options.DATA, of: options.Tables = None):
    """Shows what was said of devices."""
    with querying():
        from inflight_tools.fleet import registry

        for name, fields in registry.load(files_in(_place(data, of))).items():
            if "retired" in fields:
                fields["retired"] = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(fields["retired"]))
            show(visible(f"{name}: " + ", ".join(f"{field} {value}" for field, value in fields.items())))
