"""What the power cuts of a life would have left: judged by what the flash holds, and by starts with it.

MicroPython's unix port mounts the same file system, and imports launcher, application and journal from it: on the
emulated board that takes half a minute of a processor. Where it boots quickly, the emulated board boots from that flash
as well, until its main.py notes which application the launcher has chosen."""

import json
import os
import random
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from account import in_order
from host_tests.emulated_boards.ageing import model_of, ring_of
from host_tests.emulated_boards.each_cut import check, newest
from host_tests.emulated_boards.judge import STARTS, accepted
from host_tests.emulated_boards.tasks import CODE
from inflight import Journal
from inflight_tools.boards.images.filesystem import BLOCK
from tools.runtimes import runtime
from tools.setup.common import CHECKOUT
from update_record import FETCH, TRIAL

FETCHING, SWITCH, TRYING = "fetch", "switch", "trial"
_PHASES = {FETCH: FETCHING, TRIAL: TRYING}
_KEPT = ("state", "slot", "left", "starts", "release", "candidate", "failed")  # of a record
_HEAP = "8m"  # the flash is in it
_BOOT_S = 120


# --- which of them are started ---


def phases(records):
    """What a board was about at each of many cuts in a row, which leave these Records in force: the switch is where the
    record changes, and the operations beside."""
    packed = [record.pack() for record in records]
    changes = [len(set(packed[max(k - 2, 0) : k + 2])) > 1 for k in range(len(packed))]
    return [SWITCH if changes[k] else _PHASES.get(record.state, "idle") for k, record in enumerate(records)]


def sample(found, count, seed):
    """Indices of `count` of the cuts with the phases `found`: of fetch, switch and trial as many, if there are."""
    dice = random.Random(seed)
    groups = [[k for k, one in enumerate(found) if one == phase] for phase in (FETCHING, SWITCH, TRYING)]
    chosen = []
    for n, group in enumerate(sorted(groups, key=len)):
        chosen += dice.sample(group, min(len(group), (count - len(chosen)) // (len(groups) - n)))
    return sorted(chosen)


# --- a start ---


def run(emulated, flash):
    """Starts the application in the flash of a board. Returns what board/starting_here.py prints."""
    volume, page, partition = emulated.volumes(flash)
    with tempfile.TemporaryDirectory() as name:
        files = [Path(name, "volume"), Path(name, "partition")]
        files[0].write_bytes(volume)
        words = [files[0], page]
        if partition:
            files[1].write_bytes(partition)
            words.append(files[1])
        argv = [*runtime("micropython-x86").command(_HEAP), CODE / "starting_here.py", *words]
        env = dict(os.environ, MICROPYPATH=str(CHECKOUT / "tools/reference/flash"))
        done = subprocess.run(list(map(str, argv)), env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"no application starts:\n{done.stdout}{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])  # the launcher may have said something before


def start(emulated, cut, places, delivered):
    """Starts the application with the flash that a Cut leaves. Raises AssertionError if it is another one than the
    record says, the launcher did not count the start, or a message is lost. places, delivered: as for
    check_journal()."""
    found = run(emulated, cut.flash)
    record = newest(emulated.unpack(cut.flash))
    current = record.current
    name = _chosen(record)
    place = f"/{name}" if name else ""
    assert found["place"] == place, f"{cut.how}: {found['place']} starts, not {place}"
    wrong = [path for path in found["modules"] if not path.startswith((place or "/lib") + "/")]
    assert not wrong, f"{cut.how}: {wrong} are imported, not those of {place}"
    number = (record.release if name == current else record.candidate) if name else None
    assert found["version"].partition("+")[2] == str(number or ""), f"{cut.how}: {found['version']} is in {place}"
    left = newest({f"/{name}": bytes.fromhex(found[name]) for name in ("update.0", "update.1") if name in found})
    told = {name: getattr(left, name) for name in _KEPT}
    assert told == {name: getattr(record, name) for name in _KEPT}, f"{cut.how}: the record says {told}"
    check_journal(cut, places, delivered, set(found["held"]))


def boot(emulated, cut, brought):
    """Boots the board with the flash that a Cut leaves. Raises AssertionError if main.py starts another application
    than the record says, the file system is not whole then, or anything but the record has changed. brought: the files
    that came by cable."""

    async def work(board):
        said = lambda: [note for note in board.notes if note in STARTS]  # noqa: E731
        return await board.until(said, _BOOT_S, f"an application, after {cut.how}")

    notes, flash = emulated.cold(cut.flash, work)
    before, after = emulated.unpack(cut.flash), emulated.unpack(flash)
    name = _chosen(newest(before))
    assert STARTS[notes[0]] == name, f"{cut.how}: {STARTS[notes[0]] or 'none'} starts, not {name or 'none'}"
    check(after, brought, f"{cut.how}, booted")
    changed = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert changed <= {"/update.0", "/update.1"}, f"{cut.how}: the start changed {sorted(changed)}"


def _chosen(record):
    """The slot that starts after a power cut, by the Record in force then, which counts that start."""
    return record.start(True) if record.is_tried else record.current


# --- the journal ---


def _held(flash, places):
    """Sequence numbers of the messages that the journal at `places` of the flash holds."""
    return set(in_order(Journal(model_of(flash, places))))


def check_journal(cut, places, delivered, held=None):
    """Raises AssertionError if the journal, whose blocks are at `places` of the flash, does not hold what it has to
    after a Cut. held: what it does hold; default: what it does when it is mounted here. delivered: sequence numbers of
    all messages that arrived in the end."""
    before, after = _held(cut.before, places), _held(cut.after, places)
    held = _held(cut.flash, places) if held is None else held
    lost = (before & after) - held
    lost |= {note >> 2 for note in accepted(cut.notes)} - held - delivered
    assert not lost, f"{cut.how}: messages {sorted(lost)} are lost"
    assert held <= before | after, f"{cut.how}: messages {sorted(held - before - after)} came from nowhere"


# --- all cuts of a life ---


def cut_each(emulated, history, seed, count, brought, delivered):
    """Judges each cut of a life by what the flash holds then, and `count` of them by starts. brought: the files that
    came by cable; delivered: as for check_journal(). Returns (how many cuts there are, how many were started: {kind and
    phase: n})."""
    places, _ = ring_of(history.flash)
    records, files = [], None
    for cut in history.cuts(seed):
        # The file system does not touch the blocks of the journal, nor the journal others.
        if files is None or cut.address // BLOCK * BLOCK not in places:
            files = emulated.unpack(cut.flash)
            check(files, brought, cut.how)
        elif records[-1].n:
            check_journal(cut, places, delivered)
        records.append(newest(files))
    found = phases(records)
    chosen = set(sample(found, count, seed))
    started = Counter()
    for k, cut in enumerate(history.cuts(seed)):
        if k in chosen:
            start(emulated, cut, places, delivered)
            if emulated.BOOTS:
                boot(emulated, cut, brought)
            started[f"{cut.how}, {found[k]}"] += 1
    return len(records), started
