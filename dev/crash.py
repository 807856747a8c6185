"""Power cuts and faults without end: scripts that Hypothesis writes, cut at every operation of the flash, on all kinds
of flash, with a volatile cache, errors, rot and interrupts.

`python -m dev.crash --cuts 100000 --seed 7` prints what was cut and what a model of the standard found. Exit status 1
with a counterexample, which then stands in host_tests/crash/kept, where `make test` plays it."""

import multiprocessing
import random
import time
from collections import Counter

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from dev.reference.oracle import KINDS, OTHER
from host_tests.crash import kept
from host_tests.crash.machine import Search
from host_tests.crash.wear import Life
from host_tests.cutting import GRANULARITIES, quick_sum
from inflight import Journal

_SLICES = 40  # parts of a run: the same ones on any number of processes
_UNEVEN = 0.1


def _explore(job):
    number, cuts = job
    search = Search(number, cuts)
    search.run()
    return search.count, search.found and _describe(search.found)


def _describe(found):
    setup, steps, counterexample = found
    return (
        getattr(counterexample.error, "kind", OTHER),
        str(counterexample),
        kept.text(setup, steps, counterexample.cuts, str(counterexample.error)),
    )


def _wear(job):
    granularity, interrupted, seed, erases = job
    life = Life(granularity, seed, interrupted)
    try:
        return (granularity, interrupted), life.live(erases), life.cuts, None
    except Exception as error:
        return (granularity, interrupted), 0, life.cuts, f"a long life on {granularity}: {error!r}"


def _work(job):
    Journal._sum = quick_sum  # the same CRC, twenty times as fast
    function, argument = job
    return function, function(argument)


class Run:
    """Spreads the work over processes, and adds up what comes back."""

    def __init__(self, console, cuts, seed, erases, jobs):
        self._console = console
        self._cuts, self._seed, self._erases, self._jobs = cuts, seed, erases, jobs
        self.count = Counter()
        self.findings = []  # (kind, what, script)
        self.wear = {}  # (granularity, interrupted): (unevenness, cuts)

    def run(self):
        kinds = [(name, interrupted) for name in GRANULARITIES for interrupted in (False, True)]
        work = [(_wear, (*kind, self._seed, self._erases)) for kind in kinds]
        share = -(-self._cuts // _SLICES)
        work += [(_explore, (self._seed * _SLICES + i, share)) for i in range(_SLICES)]
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self._console) as progress:
            task = progress.add_task("power cuts", total=self._cuts)
            with multiprocessing.Pool(self._jobs) as pool:
                for function, result in pool.imap_unordered(_work, work):
                    self._add(function, result)
                    if not self._console.is_terminal:
                        self._console.print(f"{self.count['cuts']} of {self._cuts} {self._told()}")
                    progress.update(task, completed=min(self._cuts, self.count["cuts"]), description=self._told())
                    if self.findings:
                        break

    def _told(self):
        return f"{self.count['scripts']} scripts, power cuts"

    def _add(self, function, result):
        if function is _wear:
            kind, uneven, cuts, error = result
            self.wear[kind] = uneven, cuts
            if error:
                self.findings.append((OTHER, error, None))
        else:
            count, found = result
            self.count += count
            if found:
                self.findings.append(found)


def _tables(run, seconds, seed):
    count = run.count
    cuts = Table("power cut", "times", title=f"{count['cuts']:,} power cuts in {seconds / 60:.1f} minutes, seed {seed}")
    for name, key in (
        ("at a program", "program"),
        ("at an erase", "erase"),
        ("of these within bytes", "within bytes"),
        ("with a part of what was not synced lost", "cache lost"),
        ("with a bit that flipped", "rot"),
        ("no cut, but an operation that failed or was interrupted", "faults"),
        ("while mounting", "mount"),
        ("while the script ran", "work"),
        ("while all was delivered afterwards", "finish"),
        ("the first of a device", "cut 1"),
        ("during the recovery from it", "cut 2"),
        ("the third of a device, or the fourth", ("cut 3", "cut 4")),
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
    return cuts, verdict, wear


def main(
    cuts: int = typer.Option(100_000, help="how many power cuts"),
    seed: int = typer.Option(None, help="a run is the same again with the seed that it printed"),
    erases: int = typer.Option(100, help="how often each sector is erased before its wear is judged"),
    jobs: int = typer.Option(2, help="processes"),
):
    console = Console()
    seed = random.randrange(100_000) if seed is None else seed
    console.print(f"seed {seed}")
    start = time.monotonic()
    run = Run(console, cuts, seed, erases, jobs)
    run.run()
    for table in _tables(run, time.monotonic() - start, seed):
        console.print(table)
    for kind, what, script in run.findings:
        console.print(f"{kind}: {what}", style="red", markup=False, highlight=False)
        if script:
            file = kept.FOLDER / f"found-{seed}.json"
            file.write_text(script)
            console.print(f"{script}kept as {file}", markup=False, highlight=False, soft_wrap=True)
    uneven = any(part > _UNEVEN for part, _ in run.wear.values())
    raise typer.Exit(1 if run.findings or uneven else 0)


if __name__ == "__main__":
    typer.run(main)
