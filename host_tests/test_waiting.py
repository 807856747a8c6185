"""Rules for the tests themselves: none depends on how busy the machine is."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LEAST_S = 60  # what a busy machine may take for anything
# What runs on devices has limits of its own. waiting.py and broker.py sleep for all others.
EXEMPT = ("device/", "device_scripts/", "emulated_boards/", "brokers/", "waiting.py", "broker.py")
# Which argument is a time-out in seconds, if it is no keyword.
TIMEOUTS = {"communicate": 1, "join": 0, "result": 0, "settimeout": 0, "wait": 0, "wait_for": 1, "wait_for_publish": 0}
VIRTUAL = ("aio_clients", "new_loop", "virtual_time")  # a file that names one of these has its event loops from there


def number(node, constants):
    """The number that an argument is, itself or by the name of a constant of its file; None if it is computed."""
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    return node.value if isinstance(node, ast.Constant) and type(node.value) in (int, float) else None


def impatient(source):
    """(line, text) of each call that waits for less than LEAST_S of real time: time.sleep(), asyncio.sleep(), or with a
    time-out. Of these only numbers and constants count, and not 0, which does not wait; no loop that waits for
    something, and no random time after which something is killed."""
    virtual = any(name in source for name in VIRTUAL)
    tree = ast.parse(source)
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    constants = {target.id: number(node.value, {}) for node in assigned for target in node.targets
                 if isinstance(target, ast.Name)}  # fmt: skip
    loops = [node for node in ast.walk(tree) if isinstance(node, (ast.While, ast.AsyncFor))]
    looped = {id(node) for loop in loops for node in ast.walk(loop)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or id(node) in looped or "uniform(" in ast.unparse(node):
            continue
        called = ast.unparse(node.func)
        owner, _, name = called.rpartition(".")
        at = 0 if called == "asyncio.sleep" else TIMEOUTS.get(name)
        if name == "wait_for" and owner not in ("", "asyncio"):
            at = None  # Machine.wait_for() counts
        given = [keyword.value for keyword in node.keywords if keyword.arg == "timeout"]
        given += node.args[at : at + 1] if at is not None else []
        short = any(0 < (number(value, constants) or 0) < LEAST_S for value in given)
        if called == "time.sleep" or (short and not (owner == "asyncio" and virtual)):
            yield node.lineno, ast.unparse(node)


def files():
    for path in sorted(HERE.rglob("*.py")):
        name = path.relative_to(HERE).as_posix()
        if not any(part in f"/{name}" for part in map("/{}".format, EXEMPT)):
            yield name


def test_no_short_wait():
    assert [(name, *found) for name in files() for found in impatient((HERE / name).read_text())] == []


BAD = """time.sleep(0.1); time.sleep(pause); sock.settimeout(0.05); event.wait(1); thread.join(timeout=4.5);
process.communicate(timeout=2); subprocess.run(command, timeout=4); queue.get(timeout=1); wait_for(happened, 3);
asyncio.sleep(0.1)"""


@pytest.mark.parametrize("bad", map(str.strip, BAD.split(";")))
def test_the_rule_finds(bad):
    assert list(impatient(bad))


@pytest.mark.parametrize(
    "good",
    ["sock.settimeout(0)", "event.wait(60)", "','.join(names)", "asyncio.sleep(0)", "aio_clients; asyncio.sleep(1)"],
)
def test_the_rule_allows(good):
    assert not list(impatient(good))
