"""Fuzzes decoder, topics, session, mount, calls, configuration and commands: `make fuzz INPUTS=10000000 SEED=1`.

Inputs come from grammars, and from atheris, which coverage guides. Each finding is made short, shown and kept in
build/fuzz. What was reached is then replayed on 32-bit MicroPython with little heap. Exit status 1: something was
found."""

import hashlib
import importlib.util
import random
import shutil
import sys
import time

import typer
from rich.console import Console
from rich.live import Live

from tools.fuzz import CHECKOUT, campaign, corpus, target
from tools.fuzz.attempt import minimized
from tools.runtimes import runtime
from tools.shown import table

OUT = CHECKOUT / "build/fuzz"
HEAP = "400k"
_GROWTH_KB = 65536  # largest growth of memory at one target; libFuzzer's corpus is in it


def _by_target(parts):
    """{what a row is called: its parts}"""
    found = {}
    for part in parts:
        found.setdefault(part.target + (", guided" if part.folder else ""), []).append(part)
    return dict(sorted(found.items()))


def _memory(parts):
    """(least at the start, most at the end) in KB: the parts of a target follow each other in the same processes."""
    end = max(part.end_kb for part in parts)
    return min((part.start_kb for part in parts if part.start_kb), default=end), end


def report(parts):
    rows = [("target", "inputs", "a second", "edges", "features", "RSS at start", "at end", "findings")]
    for name, own in _by_target(parts).items():
        spent, done = sum(part.spent for part in own), sum(part.done for part in own)
        speed = f"{done / spent:,.0f}" if spent else ""
        reached = max(part.edges for part in own), max(part.features for part in own)
        numbers = *(f"{n:,}" if n else "" for n in reached), *(f"{kb / 1024:.0f} MB" for kb in _memory(own))
        rows.append((name, f"{done:,}", speed, *numbers, sum(len(part.findings) for part in own)))
    total, found = sum(part.done for part in parts), sum(len(part.findings) for part in parts)
    return table("What was tried (a second: by one process)", [*rows, ("all", f"{total:,}", *[""] * 5, found)])


def keep_findings(console, parts):
    """Shows each finding and writes its input to a file. Returns how many there are."""
    found = [(part.target, what, data) for part in parts for what, data in part.findings]
    for name, what, data in found:
        data = minimized(target(name).run, data)
        file = OUT / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}.hex"
        file.write_text(data.hex() + "\n")
        console.print(f"finding: {name}: {what}\n  {len(data)} bytes in {file}: {data.hex()[:120]}", markup=False)
    return len(found)


def kept(parts):
    """{target: [input, ...]}: the inputs kept by all parts, those found by coverage first."""
    inputs = {}
    for part in sorted(parts, key=lambda part: not part.folder):
        inputs.setdefault(part.target, []).extend(part.kept)
    return inputs


def replay(console, parts):
    """Replays the kept inputs on MicroPython. Returns the number of findings."""
    found = runtime("micropython-x86")
    if found.reason:
        console.print(f"not replayed: {found.name} is unavailable: {found.reason}", markup=False)
        return 0
    grown = OUT / "grown.txt"
    corpus.write(grown, kept(parts))
    try:
        done, most = corpus.replayed(found, grown, HEAP)
    except RuntimeError as error:
        console.print(f"finding: replayed on {found.name} with {HEAP} of heap:\n{error}", markup=False)
        return 1
    told = f"{done:,} inputs, the same of each; {most:,} bytes in use at most"
    console.print(f"replayed on {found.name} with {HEAP} of heap: {told}")
    return 0


def main(
    inputs: int = typer.Option(1_000_000, min=100, help="inputs in all"),
    seed: int = typer.Option(0, help="of the generators; 0: another each time"),
    minutes: float = typer.Option(20, help="ends by then, with fewer inputs if need be"),
    jobs: int = typer.Option(2, min=1, help="workers at a time"),
    save: bool = typer.Option(False, help="adds some of what was reached to the corpus in host_tests/fuzz"),
):
    """Coverage-guided and grammar-based fuzzing."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    seed = seed or random.randrange(1, 1 << 31)
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    folder = OUT / "guided"
    guided = importlib.util.find_spec("atheris") is not None
    if not guided:
        console.print("no coverage-guided fuzzing: there is no atheris for this Python; grammars only")
    began = time.monotonic()
    console.print(f"{inputs:,} inputs, seed {seed}, {jobs} workers, {minutes:g} minutes at most")
    parts = []
    with Live(console=console, refresh_per_second=1, transient=True) as live:
        planned = campaign.plan(inputs, seed, minutes * 60, jobs, folder if guided else None)
        for part in campaign.run(planned, jobs, folder):
            parts.append(part)
            live.update(report(parts))
    console.print(report(parts))
    total = sum(part.done for part in parts)
    late = "" if total >= inputs * 0.999 else f", {inputs - total:,} fewer than asked for: out of time"
    console.print(f"{total:,} inputs in {time.monotonic() - began:.0f} s{late}")
    found = keep_findings(console, parts) + replay(console, parts)
    for name, own in _by_target(parts).items():
        start, end = _memory(own)
        if end - start > _GROWTH_KB:
            found += 1
            console.print(f"finding: {name}: memory grew from {start:,} to {end:,} KB")
    if save and not found:
        console.print(f"{corpus.save(kept(parts))} inputs in {corpus.CORPUS.name}")
    console.print("no findings" if not found else f"{found} findings")
    raise typer.Exit(1 if found else 0)


if __name__ == "__main__":
    typer.run(main)
