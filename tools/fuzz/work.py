"""An unguided worker: `python -m tools.fuzz.work TARGET INPUTS SEED SECONDS KEEP` runs inputs of a grammar, reports
progress as JSON lines, and keeps some inputs. It ends early when the time is over, or after a few findings."""

import json
import random
import resource
import sys
import time

from account import quick_crc
from tools.fuzz import grammar, target
from tools.fuzz.attempt import broken

_MANY = 5  # findings


def _peak_kb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def work(name, inputs, seed, seconds, keep, tell):
    """Runs `inputs` inputs of target `name`, and keeps `keep` of them. tell(dict) is called with the progress."""
    run, make = target(name).run, getattr(grammar, name)
    rng = random.Random(seed)
    began = told = time.monotonic()
    start_kb = found = 0
    kept, every = [], max(1, inputs // max(1, keep))
    done = 0
    while done < inputs and found < _MANY and time.monotonic() - began < seconds:
        for _ in range(min(100, inputs - done)):
            data = make(rng)
            trouble = broken(run, data)
            if trouble:
                found += 1
                tell({"finding": trouble, "data": data.hex()})
            if done % every == 0:
                kept.append(data.hex())
            done += 1
        start_kb = start_kb or _peak_kb()
        if time.monotonic() - told > 1:
            told = time.monotonic()
            tell({"done": done})
    spent = time.monotonic() - began
    tell({"done": done, "seconds": spent, "start_kb": start_kb, "end_kb": _peak_kb(), "kept": kept})


def main():
    name, inputs, seed, seconds, keep = sys.argv[1:]
    quick_crc()
    work(name, int(inputs), seed, float(seconds), int(keep), lambda line: print(json.dumps(line), flush=True))


if __name__ == "__main__":
    main()
