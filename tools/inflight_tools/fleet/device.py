"""What you know of devices, and no message says: report, check, console and metrics go by it."""

import contextlib
import re
import time
from typing import Annotated

import typer

from inflight_tools import options
from inflight_tools.fleet.locations import location, present
from inflight_tools.fleet.query.errors import querying
from inflight_tools.fleet.query.times import UNITS
from inflight_tools.fleet.spark.storage import files_in
from inflight_tools.output import epilog, show
from inflight_tools.visible import visible

app = typer.Typer(no_args_is_help=True, help=__doc__)
Name = Annotated[str, typer.Argument(help="the device, as in its topics")]
Undo = Annotated[bool, options.flag("--undo", "forget it again")]
_INTERVAL = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS = {"s": 1} | UNITS


def _add(example):
    return app.command(example.split()[0], epilog=epilog(f"fleet device {example}"))


@contextlib.contextmanager
def _registry(data, of):
    """Yields the registry's module, and where the tables are."""
    place = location(data, of, "tables")
    present(place, "name that of `inflight fleet tables` with --data or --of")
    with querying():
        from inflight_tools.fleet import registry

        yield registry, place


def _or_undo(value, undo, what, argument):
    """`value`, None to forget it: one of both has to be asked for."""
    if undo == bool(value):
        raise typer.BadParameter(f"write {what}, or --undo", param_hint=f"'{argument}'")
    return value


def _say(data, of, name, field, value):
    with _registry(data, of) as (registry, place):
        registry.change(place, name, field, value)


@_add("retire attic --data telemetry")
def retire(name: Name, data: options.Data = options.DATA, of: options.Tables = None, undo: Undo = False):
    """A device was taken away: from now on it is not silent, nor is the end of its messages unknown. Its history stays,
    and when it sends again it is one like the others."""
    _say(data, of, name, "retired", None if undo else time.time())


@_add("expect attic 24h --data telemetry")
def expect(
    name: Name,
    interval: Annotated[str | None, typer.Argument(help="30s, 10m, 24h, 7d")] = None,
    data: options.Data = options.DATA,
    of: options.Tables = None,
    undo: Undo = False,
):
    """How often a device sends: it is silent when three times as long has passed, and ten minutes. Without this, its
    mean counts, or what it said before it slept."""
    found = _INTERVAL.fullmatch(interval or "")
    given = interval if undo or found else None
    _or_undo(given, undo, "an interval, for example 30s, 10m, 24h or 7d", "interval")
    _say(data, of, name, "interval_s", found and int(found[1]) * _SECONDS[found[2]])


@_add("group attic north --data telemetry")
def group(
    name: Name,
    label: Annotated[str | None, typer.Argument(help="the group")] = None,
    data: options.Data = options.DATA,
    of: options.Tables = None,
    undo: Undo = False,
):
    """The group of a device in report, metrics and alerts, in place of that in its configuration."""
    _say(data, of, name, "group", _or_undo(label, undo, "a group", "label"))


@_add("note attic 'behind the stove' --data telemetry")
def note(
    name: Name,
    text: Annotated[str | None, typer.Argument(help="for people")] = None,
    data: options.Data = options.DATA,
    of: options.Tables = None,
    undo: Undo = False,
):
    """A line for people, on the device's page and in the report."""
    _say(data, of, name, "note", _or_undo(text, undo, "a text", "text"))


@_add("list --data telemetry")
def list(data: options.Data = options.DATA, of: options.Tables = None):
    """Shows what was said of devices."""
    with _registry(data, of) as (registry, place):
        for name, fields in registry.load(files_in(place)).items():
            if "retired" in fields:
                fields["retired"] = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(fields["retired"]))
            show(visible(f"{name}: " + ", ".join(f"{field} {value}" for field, value in fields.items())))
