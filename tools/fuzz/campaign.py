"""Runs the parts of a campaign, a limited number at a time: inputs of a grammar in a process of ours, or those that
libFuzzer makes in one of its own."""

import random
import re
import resource
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from account import quick_crc
from tools.fuzz import CHECKOUT, SHARES, corpus, grammar, target
from tools.fuzz.attempt import LIMIT_S, broken
from tools.processes import workers

KEEP = 100  # inputs of each target that are replayed on MicroPython afterwards
_MANY = 5  # findings that end a part
_SLICES = 10  # parts of a target's inputs from grammars, for each process
_LONGEST = 512
_DONE = re.compile(r"DONE +cov: (\d+) ft: (\d+)")
_STATE = re.compile(r"^#(\d+)\s.*rss: (\d+)Mb")


@dataclass
class Part:
    """Some inputs of one target, and their results. folder: for what coverage finds; None: a grammar makes them."""

    target: str
    inputs: int
    seed: int
    seconds: float
    folder: Path | None = None
    done: int = 0
    spent: float = 0
    start_kb: int = 0
    end_kb: int = 0
    edges: int = 0
    features: int = 0
    findings: list = field(default_factory=list)  # (what, input)
    kept: list = field(default_factory=list)

    def run(self):
        """Runs the inputs. It ends early when the time is over, or after a few findings."""
        if self.folder:
            self._run_guided()
        else:
            self._run_grammar()
        return self

    def _run_grammar(self):
        run, make = target(self.target).run, getattr(grammar, self.target)
        rng = random.Random(self.seed)
        began, every = time.monotonic(), max(1, self.inputs * _SLICES // KEEP)
        while self.done < self.inputs and len(self.findings) < _MANY and time.monotonic() - began < self.seconds:
            for _ in range(min(100, self.inputs - self.done)):
                data = make(rng)
                if trouble := broken(run, data):
                    self.findings.append((trouble, data))
                if self.done % every == 0:
                    self.kept.append(data)
                self.done += 1
            self.start_kb = self.start_kb or _peak_kb()
        self.spent, self.end_kb = time.monotonic() - began, _peak_kb()

    def _run_guided(self):
        folder = self.folder
        folder.mkdir(parents=True)
        seeds = folder.parent / "seeds" / self.target
        options: dict = {"runs": self.inputs, "seed": self.seed % 2**32 or 1, "max_total_time": int(self.seconds) + 1}
        options |= {"max_len": _LONGEST, "timeout": LIMIT_S, "artifact_prefix": f"{folder}.", "verbosity": 1}
        words = [f"-{name}={value}" for name, value in options.items()]
        words += map(str, [folder, *([seeds] if seeds.exists() else [])])
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.fuzz.guided", self.target, *words],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        trouble = []
        for line in process.stdout:
            if state := _STATE.match(line):
                self.done, self.end_kb = int(state[1]), int(state[2]) * 1024
                self.start_kb = self.start_kb or self.end_kb
            elif line.startswith("stat::number_of_executed_units"):
                self.done = int(line.split()[-1])
            elif line.startswith("Done "):
                self.spent = float(line.split()[-2])
            elif "Error" in line or "Finding" in line or "==" in line:
                trouble.append(line.strip())
            if done := _DONE.search(line):
                self.edges, self.features = int(done[1]), int(done[2])
        if process.wait():
            what = next((line for line in trouble if not line.startswith("=")), "the worker ended without a word")
            files = sorted(folder.parent.glob(folder.name + ".*"))
            self.findings = [(what, file.read_bytes()) for file in files] or [(what, b"")]
        found = sorted(folder.iterdir(), key=lambda file: (file.stat().st_size, file.name))
        self.kept = [file.read_bytes() for file in found[:: len(found) // KEEP + 1]]


def _peak_kb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def plan(inputs, seed, seconds, jobs, folder):
    """The parts of all targets. Each target has its share of the time. folder: for what coverage finds; None: nothing
    is guided by it."""
    parts = []
    for name, (share, of_guided, of_time) in SHARES.items():
        by_coverage = int(inputs * share * of_guided) if folder else 0
        blind = int(inputs * share) - by_coverage
        time = seconds * of_time
        if by_coverage:
            parts.append(Part(name, by_coverage, seed, time * 0.25 * jobs, folder / name))
        n = jobs * _SLICES
        own = time * (0.75 if by_coverage else 1) / _SLICES
        parts += [Part(name, blind // n + (k < blind % n), seed + k, own) for k in range(n)]
    return sorted(parts, key=lambda part: not part.folder)  # long ones first


def run(parts, jobs, folder):
    """Yields the parts with their results, `jobs` at a time."""
    corpus.seeds(Path(folder) / "seeds")
    with workers(jobs, quick_crc) as work:
        yield from work(Part.run, parts)
