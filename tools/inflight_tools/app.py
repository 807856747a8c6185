"""The class of the command `inflight` and of its groups."""

import typer
from typer.core import TyperCommand, TyperGroup


class _PlainFlags:
    """Typer shows the type <bool> behind every flag, its own (--help) included, as if it took a value."""

    def get_params(self, ctx):
        params = super().get_params(ctx)
        for param in params:
            if getattr(param, "is_flag", False):  # an argument of the command has no such attribute
                param.metavar = ""
        return params


class _Command(_PlainFlags, TyperCommand):
    pass


class _Group(_PlainFlags, TyperGroup):
    pass


class App(typer.Typer):
    def __init__(self, **settings):
        super().__init__(cls=_Group, **settings)

    def command(self, name=None, **settings):
        return super().command(name, cls=_Command, **settings)
