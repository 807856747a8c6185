"""`inflight new` and `inflight test`: each from the module of its name."""

import typer

from inflight_tools.output import epilog
from inflight_tools.project import new, test

app = typer.Typer()
app.command("new", epilog=epilog("new sensor moisture"))(new.main)
app.command("test", epilog=epilog("test moisture"))(test.main)
