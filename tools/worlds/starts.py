"""Starts of a ring with checkpoints that are cut short: after a power cut in any operation of a lap, or with damaged
sectors, each operation of the start is cut, and of the starts that follow. Both mounts find the same each time, and
nothing is lost or there twice."""

from account import Account, copy_of, in_order, quick_crc, read_all, records
from faults import Tape, cut
from inflight.journal.journal import DONE, IN, OUT, SESSION, Journal
from nor import NorFlash
from tools.worlds.world import ways_of

# blocks; messages that wait, 0: records of all kinds live, and are completed in any order; the sectors, counted from
# the oldest live one, whose header is lost, and in which a record is damaged: -1 none is. With neither, operations of a
# lap are cut.
STARTS = {
    "starts": (16, 0, -1, -1),
    "starts of a ring with messages that wait": (30, 80, -1, -1),
    "starts with a lost header": (30, 80, 5, -1),
    "starts with a lost header and damage": (30, 80, 5, 9),
}


def _work(life, steps, waiting):
    # waiting: messages are completed in their order, and many wait.
    if not waiting:
        life.work(steps)
    for _ in range(steps if waiting else 0):
        life.append(OUT, 40)
        if len(life.promised) > waiting:
            life.mark(min(life.promised), DONE)


def _cuts(flash, work, every=1):
    # The images that cuts of the operations of work() leave.
    tape = Tape(flash, [], every)  # nobody has promised anything
    work()
    found = set()
    for operation in tape.stop():
        for way in ways_of(operation):
            cut(flash, operation, way)
            found.add(flash.snapshot())
    return found


def _read_all(journal, received=()):
    # As an idle client does, behind the start. received: ids that come before.
    for mid in received:
        try:
            journal.append(IN, mid, b"", 0)
        except OSError:
            journal.recover()
            journal.append(IN, mid, b"", 0)
    read_all(journal)
    return journal


def _found(journal):
    there = sorted(record[:5] for record in records(journal)), in_order(journal)
    assert journal.next_seq > max(there[1], default=-1)
    return (*there, journal.live, journal.used, journal.damaged)


def _judge(flash):
    whole, quick = (_found(_read_all(Journal(copy_of(flash, checkpoints)), (65535,))) for checkpoints in (False, True))
    assert whole == quick, f"as a whole {whole[1:]}, else {quick[1:]}"
    there = [record for record in whole[0] if record[0] != SESSION]  # of these the owner takes the newest
    assert len({*there}) == len(there), "a record is there twice"
    return {*whole[0]}


def explore_starts(name, deep=3, every=7):
    """How many images were judged. deep: cuts in a row, in starts; every: in a lap so many operations apart."""
    quick_crc()
    blocks, waiting, lost, damaged = STARTS[name]
    flash = NorFlash(blocks, 512, 64)
    flash.checkpoints = True
    life = Account(flash)
    while min(flash.erases) < 2:
        _work(life, 5, waiting)
    first = min(life.places.values()) // 512
    if lost < 0:
        frontier = _cuts(flash, lambda: _work(life, 3 * blocks, waiting), every)
    else:
        at = (first + lost) % blocks * 512
        flash.data[at : at + 24] = bytes(24)
        if damaged >= 0:
            flash.data[(first + damaged) % blocks * 512 + 120] ^= 4
        frontier = {flash.snapshot()}
    seen, wanted = set(frontier), None
    for left in range(deep, -1, -1):
        following = set()
        for image in sorted(frontier):
            flash.restore(image)
            there = _judge(flash)
            assert lost < 0 or wanted in (None, there), f"{wanted ^ there}"
            wanted = there
            if left:
                following |= _cuts(flash, lambda: _read_all(Journal(flash)))
        frontier = following - seen
        seen |= frontier
    return len(seen)
