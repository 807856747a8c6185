"""Runs the workers, a limited number at a time, and collects their reports."""

import importlib.util
import json
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tools.fuzz import CHECKOUT, SHARES, corpus
from tools.fuzz.attempt import LIMIT_S

KEEP = 100  # inputs of each target that are replayed on MicroPython afterwards
_LONGEST = 512
_DONE = re.compile(r"DONE +cov: (\d+) ft: (\d+)")
_STATE = re.compile(r"^#(\d+)\s.*rss: (\d+)Mb")


def can_be_guided():
    return importlib.util.find_spec("atheris") is not None


@dataclass
class Part:
    """One worker's part of one target, and its results."""

    target: str
    guided: bool
    inputs: int
    seed: int
    seconds: float
    done: int = 0
    spent: float = 0
    start_kb: int = 0
    end_kb: int = 0
    edges: int = 0
    features: int = 0
    findings: list = field(default_factory=list)  # (what, input)
    kept: list = field(default_factory=list)

    def read_report(self, told):
        """Reads a line of an unguided worker."""
        if "finding" in told:
            self.findings.append((told["finding"], bytes.fromhex(told["data"])))
            return
        self.done = told["done"]
        if "kept" in told:
            self.spent, self.start_kb, self.end_kb = told["seconds"], told["start_kb"], told["end_kb"]
            self.kept = [bytes.fromhex(text) for text in told["kept"]]


def plan(inputs, seed, seconds, jobs, guided):
    """The parts for all targets, long ones first. Each has its share of the time."""
    parts = []
    for name, (share, of_guided, of_time) in SHARES.items():
        by_coverage = int(inputs * share * of_guided) if guided else 0
        blind = int(inputs * share) - by_coverage
        time = seconds * of_time
        parts += [Part(name, True, by_coverage, seed, time * 0.25 * jobs)] if by_coverage else []
        parts += [Part(name, False, blind // jobs, seed + k, time * (0.75 if by_coverage else 1)) for k in range(jobs)]
    return sorted(parts, key=lambda part: (part.target not in ("mount", "session"), part.target))


def _start(module, *words):
    command = [sys.executable, "-m", f"tools.fuzz.{module}", *map(str, words)]
    return subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )


def _run_blind(part):
    process = _start("work", part.target, part.inputs, part.seed, part.seconds, KEEP)
    last = ""
    for line in process.stdout:
        if line.startswith("{"):
            part.read_report(json.loads(line))
        else:
            last = line.strip() or last
    if process.wait():
        part.findings.append((f"the worker ended with status {process.returncode}: {last}", b""))


def _run_guided(part, folder):
    folder.mkdir(parents=True)
    seeds = folder.parent / "seeds" / part.target
    options = {"runs": part.inputs, "seed": part.seed % 2**32 or 1, "max_total_time": int(part.seconds) + 1}
    options |= {"max_len": _LONGEST, "timeout": LIMIT_S, "artifact_prefix": f"{folder}.", "verbosity": 1}
    folders = [folder] + ([seeds] if seeds.exists() else [])
    process = _start("guided", part.target, *(f"-{name}={value}" for name, value in options.items()), *folders)
    trouble = []
    for line in process.stdout:
        state, done = _STATE.match(line), _DONE.search(line)
        if state:
            part.done, part.end_kb = int(state[1]), int(state[2]) * 1024
            part.start_kb = part.start_kb or part.end_kb
        elif line.startswith("stat::number_of_executed_units"):
            part.done = int(line.split()[-1])
        elif line.startswith("Done "):
            part.spent = float(line.split()[-2])
        elif "Error" in line or "Finding" in line or "==" in line:
            trouble.append(line.strip())
        if done:
            part.edges, part.features = int(done[1]), int(done[2])
    if process.wait():
        part.findings += _artifacts(part, folder, trouble)
    found = sorted(folder.iterdir(), key=lambda file: (file.stat().st_size, file.name))
    part.kept = [file.read_bytes() for file in found[:: len(found) // KEEP + 1]]


def _artifacts(part, folder, trouble):
    what = next((line for line in trouble if not line.startswith("=")), "the worker ended without a word")
    return [(what, file.read_bytes()) for file in sorted(folder.parent.glob(folder.name + ".*"))] or [(what, b"")]


def run(parts, jobs, folder, progress):
    """Runs the parts, `jobs` at a time; inputs found by coverage are stored below `folder`. progress(parts) is called
    each second."""

    def one(part):
        if part.guided:
            _run_guided(part, Path(folder) / f"{part.target}-{part.seed}")
        else:
            _run_blind(part)

    corpus.seeds(Path(folder) / "seeds")
    with ThreadPoolExecutor(jobs) as pool:
        pending = [pool.submit(one, part) for part in parts]
        tick = threading.Event()
        while not all(task.done() for task in pending):
            progress(parts)
            tick.wait(1)
        for task in pending:
            task.result()
    progress(parts)
