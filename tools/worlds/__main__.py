"""Explores all states of small worlds: `python -m tools.worlds` prints how many they have, and the first violation.
Then the exit status is 1, and the script that leads to it is saved in tools/crash/scripts, where `make test` replays
it."""

from collections import Counter
from functools import partial
from multiprocessing.pool import ThreadPool

import typer
from rich.console import Console
from rich.table import Table

from tools.crash import kept
from tools.processes import workers
from tools.worlds.search import explore
from tools.worlds.starts import STARTS, explore_starts
from tools.worlds.world import Violation, World, prepare

WORLDS = {
    "both ways": World(4, (1, 2), (1, 2), 1, 0),
    "both ways, a cut": World(4, (1, 2), (1, 2), 0, 1, 0),
    "both ways, a break and a cut": World(4, (2,), (2,), 1, 1, 2),
    "sent": World(4, (1, 2, 1, 2), (), 1, 0),
    "sent, a cut": World(4, (2, 1, 2, 1), (), 0, 1, 1, 1),
    "sent, two cuts": World(4, (2, 1), (), 0, 2, 2, 1),
    "received": World(4, (), (1, 2, 1, 2), 1, 0),
    "received, a cut": World(4, (), (1, 2, 1, 2), 0, 1),
    "received, two cuts": World(4, (), (2, 1), 0, 2),
    "QoS 0": World(4, (1, 0, 2), (0, 2), 0, 0),
    "QoS 0, a cut": World(4, (0, 1), (0, 1), 0, 1, 0),
    "level 5": World(5, (2, 1), (2,), 1, 0),
    "level 5, a cut": World(5, (2, 1), (), 0, 1, 0, 1),
}
_COLUMNS = ("states", "transitions", "cuts", "settled", "depth")


def _explore(name, run):
    try:
        return name, explore(WORLDS[name], run), None
    except Violation as violation:
        return name, None, violation


def main(
    world: str = typer.Option(None, help=f"one of {', '.join((*WORLDS, *STARTS))}; without it, all of them"),
    jobs: int = typer.Option(2, help="processes"),
):
    if world not in (None, *WORLDS, *STARTS):
        raise typer.BadParameter(f"{world} is none of {', '.join((*WORLDS, *STARTS))}")
    console = Console()
    table = Table("world", *_COLUMNS)
    total = Counter()
    with workers(jobs, prepare, chunk=4) as run, ThreadPool(jobs) as threads:
        search = partial(_explore, run=run)
        for name, judged in zip(STARTS, run(explore_starts, STARTS), strict=True) if not world else ():
            console.print(f"{name}: {judged:,} images", highlight=False)
        if world in STARTS:
            console.print(f"{world}: {explore_starts(world):,} images", highlight=False)
            return
        for name, found, violation in threads.imap_unordered(search, [world] if world else WORLDS):
            if violation:
                file = kept.FOLDER / f"found-{name.replace(',', '').replace(' ', '-')}.json"
                file.write_text(violation.script(WORLDS[name]))
                console.print(f"{name}: {violation}\nsaved as {file}", style="red", markup=False, soft_wrap=True)
                raise typer.Exit(1)
            total += found
            table.add_row(name, *(f"{found[key]:,}" for key in _COLUMNS))
            console.print(f"{name}: {found['states']:,} states", highlight=False)
    console.print(table)
    counted = ", ".join(f"{total[key]:,} {key}" for key in _COLUMNS[:3])
    console.print(f"{counted}, 0 violations", highlight=False)


if __name__ == "__main__":
    typer.run(main)
