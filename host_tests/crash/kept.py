"""Scripts that once showed a defect, one JSON file each in kept/: what is to be seen (`why`), setup, steps, and cuts:
[operation, way, packets that still arrive, whether the script goes on]."""

import json
from pathlib import Path

from host_tests.crash.explorer import Explorer, Focus, how, lost
from host_tests.crash.world import STUMBLES, World
from nor import PowerCut

FOLDER = Path(__file__).parent / "kept"


def scripts():
    return sorted(FOLDER.glob("*.json"))


def load(path):
    return json.loads(path.read_text())


def text(setup, steps, cuts, why):
    """A script as it is kept: one step, and one cut, a line."""
    lines = ["{", f' "why": {json.dumps(why)},', f' "setup": {json.dumps(setup)},']
    lines += [' "steps": [', _rows(steps), " ],", ' "cuts": [', _rows(cuts), " ]", "}"]
    return "\n".join(line for line in lines if line) + "\n"


def _rows(rows):
    return ",\n".join("  " + json.dumps(row) for row in rows)


def replay(script):
    """Plays a kept script with its cuts, in one go as it would happen. Raises what is found."""
    world = World(script["setup"])
    steps = script["steps"]
    for k, way, arrive, resume in script["cuts"]:
        if way[0] in STUMBLES:
            world.stumble(k, way[0], steps)
            return
        world.flash.cut_at(k, how(way), lost(way))
        try:
            _run(world, steps)
        except PowerCut:
            pass
        else:
            return  # the script has fewer operations by now
        world.power_cut(arrive, lost(way))
        if way[0] == "rot":
            world.rot(way[1])
        if not resume:
            steps = []
    _run(world, steps)


def _run(world, steps):
    if world.device is None:
        world.power_on()
    world.play(steps)


def look_around(script):
    """The same cuts at other operations as well: code that changes moves them."""
    focus = [Focus(way, arrive, resume, k) for k, way, arrive, resume in script["cuts"]]
    Explorer(script["setup"], script["steps"]).explore(focus)
