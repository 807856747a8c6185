"""Explores all states of small worlds: `python -m tools.worlds` prints how many they have, and the first violation. Then
the exit status is 1, and the script that leads to it is saved in tools/crash/scripts, where `make test` replays it."""

import multiprocessing
import time
from collections import Counter
from functools import partial

import typer
from rich.console import Console
from rich.table import Table

from tools.crash import kept
from tools.worlds.search import explore
from tools.worlds.world import Violation, World, prepare, script

WORLDS = {
    "both ways": World(4, (1, 2), (1, 2), 1, 0),
    "both ways, cut": World(4, (1, 2), (1, 2), 0, 1, 0),
    "both ways, few": World(4, (2,), (2,), 1, 1, 2),
    "sent": World(4, (1, 2, 1, 2), (), 1, 0),
    "sent, cut": World(4, (2, 1, 2, 1), (), 0, 1, 1, 1),
    "sent, cut twice": World(4, (2, 1), (), 0, 2, 2, 1),
    "received": World(4, (), (1, 2, 1, 2), 1, 0),
    "received, cut": World(4, (), (1, 2, 1, 2), 0, 1),
    "received, cut twice": World(4, (), (2, 1), 0, 2),
    "QoS 0": World(4, (1, 0, 2, 0), (0, 2), 0, 0),
    "QoS 0, cut": World(4, (0, 2), (0, 2), 0, 1, 0),
    "level 5": World(5, (2, 1), (2,), 1, 0),
    "level 5, cut": World(5, (2, 1), (2,), 0, 1, 0, 1),
}
_COLUMNS = ("states", "transitions", "cuts", "settled", "depth")


def main(
    world: str = typer.Option(None, help=f"one of {', '.join(WORLDS)}; without it, all of them"),
    jobs: int = typer.Option(2, help="processes"),
):
    console = Console()
    if world not in (None, *WORLDS):
        raise typer.BadParameter(f"{world} is none of {', '.join(WORLDS)}")
    table = Table("world", *_COLUMNS, "seconds")
    total = Counter()
    with multiprocessing.Pool(jobs, prepare) as pool:
        for name in [world] if world else WORLDS:
            start = time.monotonic()
            try:
                found = explore(WORLDS[name], partial(pool.imap, chunksize=4))
            except Violation as violation:
                file = kept.FOLDER / f"found-{name.replace(', ', '-').replace(' ', '-')}.json"
                file.write_text(script(violation, WORLDS[name]))
                console.print(f"{name}: {violation}\nsaved as {file}", style="red", markup=False, soft_wrap=True)
                raise typer.Exit(1) from violation
            total += found
            table.add_row(name, *(f"{found[key]:,}" for key in _COLUMNS), f"{time.monotonic() - start:.0f}")
            console.print(f"{name}: {found['states']:,} states", highlight=False)
    console.print(table)
    console.print(f"{total['states']:,} states, {total['transitions']:,} transitions, {total['cuts']:,} cuts, 0 violations")


if __name__ == "__main__":
    typer.run(main)
