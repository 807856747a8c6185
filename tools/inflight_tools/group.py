"""The class of the command `inflight` and of its groups, with what the helps of all commands have alike."""

import dataclasses
import inspect
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from inflight_tools.settings import Tls


def _without_types(params):
    """Typer shows the type <bool> behind every flag, its own (--help) included, as if it took a value."""
    for flag in (param for param in params if getattr(param, "is_flag", False)):  # arguments have no such attribute
        flag.metavar = ""
    return params


class _Command(TyperCommand):
    def get_params(self, ctx):
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    def get_params(self, ctx):
        return _without_types(super().get_params(ctx))


def _spread(command):
    """A function for Typer: in place of a parameter of `command` whose type is a dataclass, it has a parameter for each
    field of that class. All are keywords: with a default or not, in any order."""
    groups: dict[str, Any] = {}
    flat = []
    for name, found in inspect.signature(command).parameters.items():
        if dataclasses.is_dataclass(found.annotation):
            groups[name] = found.annotation
            own = inspect.signature(groups[name]).parameters.values()
            flat += sorted(own, key=lambda one: one.name in Tls._fields)  # these are for few
        else:
            flat.append(found)

    def run(**given):
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        command(**given)

    run.__signature__ = inspect.Signature([one.replace(kind=one.KEYWORD_ONLY) for one in flat])  # type: ignore[attr-defined]
    run.__annotations__ = {found.name: found.annotation for found in flat}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


class Group(typer.Typer):
    def __init__(self, *words, help=None):
        """words: what calls the group. A traceback shows no local variables, which could be a secret."""
        super().__init__(cls=_Group, help=help, no_args_is_help=True, pretty_exceptions_enable=False)
        self.words = " ".join(["inflight", *words])

    def command(self, name=None, **settings):
        add = super().command(name, cls=_Command, **settings)
        return lambda function: add(_spread(function))

    def add(self, example, status="", **settings):
        """A decorator for a command's function. example: its use, from its name on. status: behind the usual ones."""
        text = f"Example: {self.words} {example}\n\nExit status: 0 done, 1 failed, 2 wrong arguments{status}."
        return self.command(example.split()[0], epilog=text, **settings)
