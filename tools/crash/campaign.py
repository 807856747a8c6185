"""The work of a campaign in parts, which processes share."""

from collections import Counter

from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from account import quick_crc
from tools.crash import kept
from tools.crash.cutting import GRANULARITIES
from tools.crash.machine import Search
from tools.crash.wear import Endurance
from tools.processes import workers
from tools.reference.oracle import OTHER

_SLICES = 40  # parts of a run, independent of the number of processes


def _explore(job):
    number, cuts, campaign = job
    search = Search(number, cuts, campaign=campaign)
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
    endurance = Endurance(granularity, seed, interrupted)
    try:
        return (granularity, interrupted), endurance.run(erases), endurance.cuts, None
    except Exception as error:
        return (granularity, interrupted), 0, endurance.cuts, f"endurance run on {granularity}: {error!r}"


def _work(job):
    function, argument = job
    return function, function(argument)


class Run:
    """Distributes the work to processes, and adds up their results."""

    def __init__(self, console, campaign, cuts, seed, erases, jobs):
        self._console = console
        self._campaign, self._cuts, self._seed, self._erases, self._jobs = campaign, cuts, seed, erases, jobs
        self.count = Counter()
        self.findings = []  # (kind, what, script)
        self.wear = {}  # (granularity, interrupted): (unevenness, cuts)

    def run(self):
        kinds = [(name, interrupted) for name in GRANULARITIES for interrupted in (False, True)]
        if self._campaign != "cuts":
            kinds = []  # sectors wear the same in all
        work: list = [(_wear, (*kind, self._seed, self._erases)) for kind in kinds]
        share = -(-self._cuts // _SLICES)
        work += [(_explore, (self._seed * _SLICES + i, share, self._campaign)) for i in range(_SLICES)]
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeElapsedColumn(), console=self._console) as progress:
            task = progress.add_task("power cuts", total=self._cuts)
            with workers(self._jobs, quick_crc) as run:
                for function, result in run(_work, work):
                    self._add(function, result)
                    if not self._console.is_terminal:
                        self._console.print(f"{self.count['cuts']} of {self._cuts} {self._status()}")
                    progress.update(task, completed=min(self._cuts, self.count["cuts"]), description=self._status())
                    if self.findings:
                        break

    def _status(self):
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
