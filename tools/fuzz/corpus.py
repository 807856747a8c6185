"""Corpora: inputs and their outcomes on CPython, in one text file, which MicroPython can replay."""

import subprocess
from pathlib import Path

from tools.fuzz import CORPUS, TARGETS, target
from tools.runtimes import device_run

HEAD = "# Inputs of the fuzzers, and what came of them on CPython: `python -m tools.fuzz --save` adds to them.\n"


def read(path=CORPUS):
    """{target: [input, ...]}"""
    from replay import entries

    inputs = {}
    for name, _, data in entries(path):
        inputs.setdefault(name, []).append(data)
    return inputs


def seeds(folder):
    """Writes the inputs of the corpus in libFuzzer's format, below `folder` by target."""
    for name, some in read().items():
        (Path(folder) / name).mkdir(parents=True)
        for k, data in enumerate(some):
            (Path(folder) / name / f"{k:03}").write_bytes(data)


def save(inputs, each=60, longest=160):
    """Adds inputs of each target to the corpus up to its limit, evenly spread over those given. Returns how many it
    contains."""
    kept = read()
    for name, some in inputs.items():
        fresh = [data for data in some if len(data) <= longest and data not in kept.get(name, ())]
        room = max(0, each - len(kept.get(name, ())))
        kept.setdefault(name, []).extend(fresh[:: len(fresh) // room + 1] if room else ())
    return write(CORPUS, kept)


def write(path, inputs):
    """Writes {target: [input, ...]} without inputs that lead to findings. Returns how many."""
    lines = []
    for name, some in inputs.items():
        run = target(name).run
        for data in sorted(set(some), key=lambda data: (len(data), data)):
            lines.append(f"{name} {run(data)} {data.hex()}".rstrip())
    path.write_text(HEAD + "\n".join(lines) + "\n")
    return len(lines)


def replayed(runtime, path, heap, seconds=900):
    """(inputs, largest heap use in bytes) of a replay on a Runtime of MicroPython; RuntimeError with its output."""
    script = TARGETS / "replay.py"
    command = [*runtime.command(heap), str(script), str(path)]
    env = device_run.environment(runtime, script)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr).strip()[-1500:])
    inputs, most = done.stdout.split()
    return int(inputs), int(most)
