"""What tests of power cuts share: the kinds of flash, a tape of all that is programmed, a CRC that is quick."""

import zlib
from collections import namedtuple

# Bytes of a program.
GRANULARITIES = {"page-1": 1, "page-4": 4, "page-64": 64, "page-256": 256}

# An operation of the flash, the flash before it, what of that was not synced, and what had been promised by then.
Operation = namedtuple("Operation", "name at old new flash unsynced promised")


class Tape:
    """Every operation of a run. `promised` is what the run's judge knows, with a method copy()."""

    def __init__(self, flash, promised):
        self.flash = flash
        self.promised = promised
        self.operations = []
        flash.watch = self._note

    def _note(self, name, at, old, new):
        before = self.flash.snapshot(), self.flash.unsynced()
        self.operations.append(Operation(name, at, old, new, *before, self.promised.copy()))

    def stop(self):
        self.flash.watch = None
        return self.operations


def cut(flash, operation, how, lost=None):
    """Puts the flash back as it was before the operation, and lets how(old, new) stand of that. Returns what had been
    promised. lost: what was not synced is lost in part, a number tells which."""
    if lost is not None:
        flash.restore(operation.flash, operation.unsynced, lost)
        return operation.promised.copy()
    flash.restore(operation.flash)
    flash.land(operation.at, how(operation.old, operation.new))
    return operation.promised.copy()


def quick_sum(self, data, i, end):
    """The journal's CRC loop, twenty times as fast; device/test_journal.py has tests of the loop itself."""
    crc = zlib.crc32(data[i:end], ~(self._low | self._high << 16) & 0xFFFFFFFF) ^ 0xFFFFFFFF
    self._low, self._high = crc & 0xFFFF, crc >> 16
