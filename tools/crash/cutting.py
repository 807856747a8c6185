"""Shared by tests of power cuts: granularities of flash, a recording of all operations, a fast CRC."""

import os
import zlib
from collections import namedtuple

# Bytes of the smallest program operation.
GRANULARITIES = {"page-1": 1, "page-4": 4, "page-64": 64, "page-256": 256}
# Bytes between cuts within an operation.
APART = 1 if os.environ.get("INFLIGHT_ALL_CUTS") else 11

# An operation of the flash; before it: the flash, its undecided bits, the unsynced operations, and the judge's state.
Operation = namedtuple("Operation", "name at old new flash undecided unsynced promised")


class Tape:
    """Records every operation. `promised`: the judge's state, with a method copy()."""

    def __init__(self, flash, promised):
        self.flash = flash
        self.promised = promised
        self.operations = []
        flash.watch = self._note

    def _note(self, name, at, old, new):
        before = self.flash.snapshot(), dict(self.flash.undecided), self.flash.unsynced()
        self.operations.append(Operation(name, at, old, new, *before, self.promised.copy()))

    def stop(self):
        self.flash.watch = None
        return self.operations


def cut(flash, operation, outcome, lost=None):
    """Restores the flash before the operation and puts outcome(old, new) in its place. Returns the judge's state. lost:
    a seed; the operation has not begun, and some unsynced ones before it are lost."""
    if lost is not None:
        flash.restore(operation.flash, operation.unsynced, lost)
        flash.undecided.update(operation.undecided)
        return operation.promised.copy()
    flash.restore(operation.flash)
    flash.undecided.update(operation.undecided)
    flash.overwrite(operation.at, operation.old, outcome(operation.old, operation.new))
    return operation.promised.copy()


def quick_crc(replace=setattr):
    """Makes the CRC of journals twenty times as fast; device/lib/test_journal.py tests the original.
    replace: setattr(), or that of a MonkeyPatch."""
    from inflight.journal.journal import Journal  # late: the guided fuzzer instruments what is imported

    replace(Journal, "_sum", _quick_sum)


def _quick_sum(self, data, i, end):
    crc = zlib.crc32(data[i:end], ~(self._crc[0] | self._crc[1] << 16) & 0xFFFFFFFF) ^ 0xFFFFFFFF
    self._crc[0], self._crc[1] = crc & 0xFFFF, crc >> 16
