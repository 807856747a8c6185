"""The work of a campaign in parts, which processes share."""

from collections import Counter
from functools import partial

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from account import quick_crc
from tools.crash import kept
from tools.crash.cutting import GRANULARITIES
from tools.crash.machine import Search
from tools.crash.wear import Endurance
from tools.processes import workers
from tools.reference.oracle import OTHER

_SLICES = 40  # parts of a run, independent of the number of processes


# A part returns what it counted; its findings, each (kind, what, script); and the wear of sectors that it measured.


def _explore(number, cuts, campaign):
    search = Search(number, cuts, campaign=campaign)
    if search.run():
        return search.count, [], {}
    setup, steps, found = search.found
    script = kept.text(setup, steps, found.cuts, str(found.error))
    return search.count, [(getattr(found.error, "kind", OTHER), str(found), script)], {}


def _wear(granularity, interrupted, seed, erases):
    endurance, uneven, findings = Endurance(granularity, seed, interrupted), 0, []
    try:
        uneven = endurance.run(erases)
    except Exception as error:
        findings.append((OTHER, f"endurance run on {granularity}: {error!r}", None))
    return Counter(), findings, {(granularity, interrupted): (uneven, endurance.cuts)}


def _call(part):
    return part()


def run(console, campaign, cuts, seed, erases, jobs):
    """What the parts of a campaign return, added up. It ends with the first finding. Wear: {(granularity, with power
    cuts): (unevenness, cuts)}."""
    kinds = [(name, interrupted) for name in GRANULARITIES for interrupted in (False, True)]
    if campaign != "cuts":
        kinds = []  # sectors wear the same in all
    parts = [partial(_wear, *kind, seed, erases) for kind in kinds]
    parts += [partial(_explore, seed * _SLICES + i, -(-cuts // _SLICES), campaign) for i in range(_SLICES)]
    count, findings, wear = Counter(), [], {}
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress, workers(jobs, quick_crc) as work:
        task = progress.add_task("power cuts", total=cuts)
        for counted, found, worn in work(_call, parts):
            count += counted
            findings += found
            wear |= worn
            status = f"{count['scripts']} scripts, power cuts"
            if not console.is_terminal:
                console.print(f"{count['cuts']} of {cuts} {status}")
            progress.update(task, completed=min(cuts, count["cuts"]), description=status)
            if findings:
                break
    return count, findings, wear
