"""What would start if the power had gone at an operation of the flash: judged from what the flash would hold then, for
each operation of a life that had no cut."""

import hashlib
import random
from typing import NamedTuple

from tools.emulators.power import Plan
from update_record import TRIAL, Record, unpack

_DIGEST = 32
_ENTRY = 1 + 4 + _DIGEST  # bytes of a file in an image's index, beside its path


class Cut(NamedTuple):
    """The power goes at an operation of the flash."""

    how: str
    flash: bytes  # what it leaves
    address: int  # of the operation
    before: bytes  # the flash before the operation, and after it if the power stays
    after: bytes
    notes: list  # of the board until then


class History:
    """The flash of a board that began with the bytes `before`; note() is told of each operation. notes: the list to
    which the board's notes are appended."""

    def __init__(self, before, notes=()):
        self.notes = notes
        self._before = before
        self._operations = []

    @property
    def flash(self):
        """What the last operation leaves."""
        flash = bytearray(self._before)
        for _, address, old, new, _ in self._operations:
            flash[address : address + len(old)] = new
        return bytes(flash)

    def note(self, *operation):
        """An operation: kind, address, what was there and what is there now."""
        self._operations.append((*operation, len(self.notes)))

    def cuts(self, seed):
        """Yields the Cut at each operation, which it tears or not."""
        dice = random.Random(seed)
        flash = self._before
        for kind, address, old, new, noted in self._operations:
            how = dice.choice(("torn", "after"))  # before one is after the one before
            left = _with(flash, address, Plan(1, how, dice.random()).left_behind(old, new))
            after = _with(flash, address, new)
            yield Cut(f"{kind} {how}", left, address, flash, after, list(self.notes[:noted]))
            flash = after


def _with(flash, address, content):
    return flash[:address] + content + flash[address + len(content) :]


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
