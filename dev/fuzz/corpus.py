"""Corpora: inputs and what comes of them here, in one file of text, which MicroPython replays as well."""

import subprocess
from pathlib import Path

from dev import device_run
from inflight_tools.boards.bundle import LIB

from . import CORPUS, TARGETS, target

HEAD = "# Inputs of the fuzzers, and what came of them on CPython: `python -m dev.fuzz --save` adds to them.\n"


def read(path=CORPUS):
    """{target: [input, ...]}"""
    from replay import entries

    inputs = {}
    for name, _, data in entries(path):
        inputs.setdefault(name, []).append(data)
    return inputs


def seeds(folder):
    """Writes the inputs of the corpus as libFuzzer wants them, below `folder` by target."""
    for name, some in read().items():
        (Path(folder) / name).mkdir(parents=True)
        for k, data in enumerate(some):
            (Path(folder) / name / f"{k:03}").write_bytes(data)


def save(inputs, each=60, longest=160):
    """Adds to the corpus what fits of each target, spread over those given. Returns how many it has then."""
    kept = read()
    for name, some in inputs.items():
        fresh = [data for data in some if len(data) <= longest and data not in kept.get(name, ())]
        room = max(0, each - len(kept.get(name, ())))
        kept.setdefault(name, []).extend(fresh[:: len(fresh) // room + 1] if room else ())
    return write(CORPUS, kept)


def write(path, inputs):
    """Writes {target: [input, ...]}; whatever breaks a target is not there to be kept. Returns how many."""
    lines = []
    for name, some in inputs.items():
        run = target(name).run
        for data in sorted(set(some), key=lambda data: (len(data), data)):
            lines.append(f"{name} {run(data)} {data.hex()}".rstrip())
    path.write_text(HEAD + "\n".join(lines) + "\n")
    return len(lines)


def replayed(runtime, path, heap, seconds=900):
    """(inputs, most bytes of heap in use) of a replay on a Runtime of MicroPython; RuntimeError with what it said."""
    script = TARGETS / "replay.py"
    command = [*runtime.command(heap), str(script), str(path)]
    env = device_run.environment(LIB, script)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr).strip()[-1500:])
    inputs, most = done.stdout.split()
    return int(inputs), int(most)
