"""Scripts that once showed a defect, one JSON file each in scripts/: the finding (`why`), setup, steps, and cuts. A cut
is [operation, way, packets that still arrive, whether the script continues]."""

import json
from pathlib import Path

from faults import cache_seed, outcome
from nor import PowerCut
from tools.crash.explorer import Explorer, Focus
from tools.crash.simulation import FAULTS, Simulation

FOLDER = Path(__file__).parent / "scripts"


def scripts():
    return sorted(FOLDER.glob("*.json"))


def load(path):
    return json.loads(path.read_text())


def text(setup, steps, cuts, why):
    """The text of a script's file: one line for each step and each cut."""
    lines = ["{", f' "why": {json.dumps(why)},', f' "setup": {json.dumps(setup)},']
    lines += [' "steps": [', _rows(steps), " ],", ' "cuts": [', _rows(cuts), " ]", "}"]
    return "\n".join(line for line in lines if line) + "\n"


def _rows(rows):
    return ",\n".join("  " + json.dumps(row) for row in rows)


def replay(script):
    """Plays a kept script with its cuts. Raises the finding."""
    simulation = Simulation(script["setup"])
    steps = script["steps"]
    for k, way, arrive, resume in script["cuts"]:
        if way[0] in FAULTS:
            simulation.inject_fault(k, way[0], steps)
            return
        simulation.flash.cut_at(k, outcome(way), cache_seed(way))
        try:
            _run(simulation, steps)
        except PowerCut:
            pass
        else:
            return  # the code has changed, and the script has fewer operations now
        simulation.power_cut(arrive, cache_seed(way))
        if way[0] == "rot":
            simulation.rot(way[1])
        steps = script["steps"] if resume else []
    _run(simulation, steps)


def _run(simulation, steps):
    if simulation.device is None:
        simulation.power_on()
    simulation.play(steps)


def replay_nearby(script):
    """Tries the same cuts at other operations too, since changed code shifts the operations."""
    focus = [Focus(way, arrive, resume, k) for k, way, arrive, resume in script["cuts"]]
    Explorer(script["setup"], script["steps"]).explore(focus)
