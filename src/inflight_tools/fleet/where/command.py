"""The command `inflight fleet where`."""

import json
import time

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inflight_tools.failure import print_failure
from inflight_tools.fleet.proof import Proof
from inflight_tools.fleet.spark.landing import LocalLanding, summary
from inflight_tools.visible import visible

ELSEWHERE = 3  # exit status: the message is not in the tables


def _found(device, number, epoch, landing, of, topics, grace, retired):
    from inflight_tools.fleet.where.answer import answer
    from inflight_tools.fleet.where.history import History, marks

    now, unread = time.time(), LocalLanding(landing, of).unread()  # before the tables: what is read meanwhile counts
    history = History(of, device)
    proof = Proof(marks(of, retired), now - grace, summary(unread, now)["stale"] > 0)
    return answer(history, device, number, proof, landing, of, topics, epoch)


def run(device, number, epoch, landing, of, topics, grace, retired, as_json):
    """Prints where the message is, and ends the command with its exit status."""
    try:
        from deltalake.exceptions import DeltaError, TableNotFoundError

        from inflight_tools.fleet.where.answer import DELIVERED, Unknown
        from inflight_tools.fleet.where.words import rows, sentence
    except ImportError as e:
        print_failure(Console(stderr=True), f"{e.name} is not installed: pip install 'inflight[fleet]'")
        raise typer.Exit(1) from None
    try:
        found = _found(device, number, epoch, landing, of, topics, grace, retired)
    except TableNotFoundError:
        print_failure(Console(stderr=True), f"there are no tables in {of}: has `inflight fleet tables` run?")
        raise typer.Exit(1) from None
    except (Unknown, DeltaError, OSError, ValueError) as e:  # ValueError: also what pyarrow raises
        print_failure(Console(stderr=True), str(e).partition("\n")[0][:500] or type(e).__name__)
        raise typer.Exit(1) from None
    if as_json:
        print(json.dumps(found))
    else:
        shown = Table(title=Text(visible(f"Message {number} of {device}")), title_justify="left", show_header=False)
        for step, known in rows(found):
            shown.add_row(step, Text(visible(known)))
        Console().print(shown)
        Console().print(sentence(found), highlight=False, soft_wrap=True)
    raise typer.Exit(0 if found["place"] == DELIVERED else ELSEWHERE)
