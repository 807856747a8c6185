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

from account import quick_crc
from tools.crash import interrupts, kept
from tools.crash.campaign import run
from tools.crash.cutting import GRANULARITIES
from tools.crash.machine import CAMPAIGNS
from tools.processes import workers
from tools.reference.oracle import KINDS
from tools.shown import table

_UNEVEN = 0.1
_INTERRUPTS = "interrupts"
_USUAL = 100_000
_COUNTED = {  # by an Explorer
    "program": "at a program",
    "erase": "at an erase",
    "within bytes": "of these within bytes",
    "cache lost": "with loss of unsynced operations",
    "undecided": "with bits that read differently at each read",
    "rot": "with a bit flip",
    "faults": "no cut, but an operation that failed or was interrupted",
    "mount": "during a mount",
    "work": "during the script",
    "finish": "during the final deliveries",
    "cut 1": "first cut",
    "cut 2": "second cut, during the recovery",
    "cut 3": "third or fourth cut",
    **{name: f"on {name}" for name in GRANULARITIES},
}


def _tables(title, count, findings, wear):
    yield table(title, [("power cut", "times"), *((words, f"{count[key]:,}") for key, words in _COUNTED.items())])
    found = Counter(kind for kind, _, _ in findings)
    verdicts = {"scripts": count["scripts"], "messages accepted": count["accepted"], **{k: found[k] for k in KINDS}}
    yield table("", [("verdict", "times"), *((name, f"{n:,}") for name, n in verdicts.items())])
    if wear:
        rows = [("wear of sectors", "without cuts", "with cuts", "cuts")]
        for name in GRANULARITIES:
            (plain, _), (uneven, cuts) = (wear.get((name, interrupted), (0, 0)) for interrupted in (False, True))
            rows.append((name, f"{100 * plain:.1f} %", f"{100 * uneven:.1f} %", str(cuts)))
        yield table("", rows)


def _explore_campaign(console, name, cuts, seed, erases, jobs):
    """Prints what was found. Returns True if that is nothing."""
    start = time.monotonic()
    count, findings, wear = run(console, name, cuts, seed, erases, jobs)
    minutes = (time.monotonic() - start) / 60
    title = f"{name}: {count['cuts']:,} power cuts in {minutes:.1f} minutes, seed {seed}"
    console.print(*_tables(title, count, findings, wear))
    for kind, what, script in findings:
        console.print(f"{kind}: {what}", style="red", markup=False, highlight=False)
        if script:
            file = kept.FOLDER / f"found-{name}-{seed}.json"
            file.write_text(script)
            console.print(f"{script}saved as {file}", markup=False, highlight=False, soft_wrap=True)
    return not findings and all(uneven <= _UNEVEN for uneven, _ in wear.values())


def _explore_interrupts(console, cuts, jobs):
    """As _explore_campaign(). With fewer than the usual cuts not every line is tried."""
    explore = partial(interrupts.explore, stride=max(1, _USUAL // cuts))
    total, good = 0, True
    with workers(jobs, quick_crc) as work:
        for point, (n, found) in zip(interrupts.POINTS, work(explore, interrupts.POINTS), strict=True):
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
