"""Cuts the power in random scripts at their flash operations, with a volatile cache, errors, bit rot and interrupts.

`python -m tools.crash --cuts 100000 --seed 7` prints statistics and findings of each campaign.
`--campaign undecided` is one of them: cuts; undecided (bits that read differently at each read after a cut);
stuck (bits that cannot be cleared, or not be set); checkpoints (in the journals, of which a start reads a part then);
three (rings of three sectors). After a finding the exit status is 1, and the counterexample is saved in
tools/crash/scripts, where `make test` replays it. `--campaign interrupts` cuts no power: it interrupts every call
of both clients at each line of the library."""

import random
import time
from collections import Counter
from functools import partial

import typer
from rich.console import Console
from rich.table import Table

from account import quick_crc
from tools.crash import interrupts, kept
from tools.crash.campaign import Run
from tools.crash.cutting import GRANULARITIES
from tools.crash.explorer import MOUNTS
from tools.crash.machine import CAMPAIGNS
from tools.processes import workers
from tools.reference.oracle import KINDS

_UNEVEN = 0.1
_INTERRUPTS = "interrupts"
_USUAL = 100_000


def _tables(run, name, seconds, seed):
    count = run.count
    title = f"{name}: {count['cuts']:,} power cuts in {seconds / 60:.1f} minutes, seed {seed}"
    cuts = Table("power cut", "times", title=title)
    for name, key in (
        ("at a program", "program"),
        ("at an erase", "erase"),
        ("of these within bytes", "within bytes"),
        ("with loss of unsynced operations", "cache lost"),
        ("with bits that read differently at each read", "undecided"),
        ("with a bit flip", "rot"),
        ("no cut, but an operation that failed or was interrupted", "faults"),
        ("during a mount", MOUNTS),
        ("during the script", "work"),
        ("during the final deliveries", "finish"),
        ("first cut", "cut 1"),
        ("second cut, during the recovery", "cut 2"),
        ("third or fourth cut", ("cut 3", "cut 4")),
        *((f"on {name}", name) for name in GRANULARITIES),
    ):
        keys = (key,) if isinstance(key, str) else key
        cuts.add_row(name, f"{sum(count[k] for k in keys):,}")
    verdict = Table("verdict", "times")
    verdict.add_row("scripts", f"{count['scripts']:,}")
    verdict.add_row("messages accepted", f"{count['accepted']:,}")
    found = Counter(kind for kind, _, _ in run.findings)
    for kind in KINDS:
        verdict.add_row(kind, str(found[kind]), style="red" if found[kind] else "")
    wear = Table("wear of sectors", "without cuts", "with cuts", "cuts")
    for name in GRANULARITIES:
        plain, cut = run.wear.get((name, False), (0, 0)), run.wear.get((name, True), (0, 0))
        wear.add_row(name, *(f"{100 * uneven:.1f} %" for uneven, _ in (plain, cut)), str(cut[1]))
    return (cuts, verdict, wear) if run.wear else (cuts, verdict)


def _explore_campaign(console, name, cuts, seed, erases, jobs):
    """Prints what was found. Returns True if that is nothing."""
    start = time.monotonic()
    run = Run(console, name, cuts, seed, erases, jobs)
    run.run()
    for table in _tables(run, name, time.monotonic() - start, seed):
        console.print(table)
    for kind, what, script in run.findings:
        console.print(f"{kind}: {what}", style="red", markup=False, highlight=False)
        if script:
            file = kept.FOLDER / f"found-{name}-{seed}.json"
            file.write_text(script)
            console.print(f"{script}saved as {file}", markup=False, highlight=False, soft_wrap=True)
    return not run.findings and all(part <= _UNEVEN for part, _ in run.wear.values())


def _explore_interrupts(console, cuts, jobs):
    """As _explore_campaign(). With fewer than the usual cuts not every line is tried."""
    explore = partial(interrupts.explore, stride=max(1, _USUAL // cuts))
    total, good = 0, True
    with workers(jobs, quick_crc) as run:
        for point, (n, found) in zip(interrupts.POINTS, run(explore, interrupts.POINTS), strict=True):
            total += n
            place = f"{point.client}, level {point.level}, {point.call}: {point.event} at {n:,} lines, {total:,} in all"
            console.print(place, highlight=False, soft_wrap=True)
            if found:
                good = False
                console.print(found, style="red", markup=False, highlight=False)
    return good


def main(
    cuts: int = typer.Option(_USUAL, help="how many power cuts in each campaign"),
    campaign: str = typer.Option(None, help=f"one of {', '.join((*CAMPAIGNS, _INTERRUPTS))}; without it, all of them"),
    seed: int = typer.Option(None, help="repeats the run that printed this seed"),
    erases: int = typer.Option(100, help="erases per sector before wear is measured"),
    jobs: int = typer.Option(2, help="processes"),
):
    console = Console()
    seed = random.randrange(100_000) if seed is None else seed
    console.print(f"seed {seed}")
    known = (*CAMPAIGNS, _INTERRUPTS)
    if campaign not in (None, *known):
        raise typer.BadParameter(f"{campaign} is none of {', '.join(known)}")
    good = []
    for name in [campaign] if campaign else known:
        if name == _INTERRUPTS:
            good.append(_explore_interrupts(console, cuts, jobs))
        else:
            good.append(_explore_campaign(console, name, cuts, seed, erases, jobs))
    raise typer.Exit(0 if all(good) else 1)


if __name__ == "__main__":
    typer.run(main)
