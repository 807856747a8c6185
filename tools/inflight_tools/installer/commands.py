"""`inflight installer`."""

import typer

from inflight_tools.installer import folder
from inflight_tools.output import epilog

app = typer.Typer()
app.command("installer", epilog=epilog("installer --out public --board esp32 --board pico_w"))(folder.main)
