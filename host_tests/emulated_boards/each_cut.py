"""What would start if the power had gone at an operation of the flash: judged from what the flash would hold then, for
each operation of a life that had no cut."""

import hashlib
import random

from dev.power import Plan
from update_record import TRIAL, Record, unpack

_DIGEST = 32
_ENTRY = 1 + 4 + _DIGEST  # bytes of a file in an image's index, beside its path


class History:
    """The flash of a board that began with the bytes `before`; note() is told of each operation."""

    def __init__(self, before):
        self.flash = before
        self._operations = []

    def note(self, *operation):
        """An operation: kind, address, what was there and what is there now."""
        self._operations.append(operation)

    def cuts(self, seed):
        """Yields (how the power goes, content of the flash then) for each operation, which the cut tears or not.
        Afterwards `flash` is what the last one leaves."""
        dice = random.Random(seed)
        flash = bytearray(self.flash)
        for kind, address, old, new in self._operations:
            how = dice.choice(("torn", "after"))  # before one is after the one before
            flash[address : address + len(old)] = Plan(1, how, dice.random()).left_behind(old, new)
            yield f"{kind} {how}", bytes(flash)
            flash[address : address + len(old)] = new
        self.flash = bytes(flash)


def newest(files):
    """The Record in force among a board's files."""
    found = [unpack(files[path]) for path in ("/update.0", "/update.1") if path in files]
    return max((record for record in found if record), key=lambda record: record.n, default=Record())


def check(files, brought, how):
    """Raises AssertionError if something may start that is not whole. files: of the board whose power went `how`;
    brought: those that came by cable."""
    record = newest(files)
    for slot in {record.current, record.other if record.state == TRIAL else record.current}:
        if slot:
            assert _is_whole(files.get(f"/{slot}.image", b"")), f"{how}: slot {slot} is not whole, and starts"
        else:
            missing = [path for path in brought if files.get(path) != brought[path]]
            assert not missing, f"{how}: what the cable brought starts, without {missing}"


def _is_whole(image):
    at, files = 0, []
    while at + sum(size for size, _ in files) < len(image):
        name = at + 1
        at += _ENTRY + image[at]
        size = name + image[name - 1]
        files.append((int.from_bytes(image[size : size + 4], "little"), image[size + 4 : at]))
    for size, digest in files:
        if hashlib.sha256(image[at : at + size]).digest() != digest:
            return False
        at += size
    return 0 < at == len(image)
