"""`inflight keys`, `inflight release`, `inflight rollout`: each from the module of its name."""

import typer

from inflight_tools.output import epilog
from inflight_tools.update import keys, release, rollout

app = typer.Typer()
app.command("keys", epilog=epilog("keys --signing-key release.key"))(keys.main)
app.command("release", epilog=epilog("release --board pico_w --number 7 --signing-key release.key"))(release.main)
app.command("rollout", epilog=epilog("rollout build/pico_w-7.release --config attic.json"))(rollout.main)
