"""Power cuts. Every program and erase of the flash chip is seen here, and can be the last."""

import random

from rp2040py.peripherals import ssi as chip

_SIZES = {chip.CMD_PAGE_PROGRAM: 256, chip.CMD_SECTOR_ERASE: 4096, chip.CMD_BLOCK_ERASE: 65536}
KINDS = ("program", "erase")
HOW = ("before", "torn", "after")


class Power:
    """The power of one board. operations: (kind, address) of each flash operation so far. cut: how it went off, or
    None while it is on."""

    def __init__(self, mcu, switch_off):
        self.operations = []
        self.cut = None
        self._mcu = mcu
        self._switch_off = switch_off
        self._plan = None
        self._left = 0
        self._alarm = None
        self._apply = mcu.ssi._apply_command
        mcu.ssi._apply_command = self._operate

    def cut_at_operation(self, count, how, seed=0, kinds=KINDS):
        """Power goes before or after the count-th operation of these kinds from now, or while it runs ("torn"): then
        the operation gets as far as `seed` says, to the bit."""
        self._left = count
        self._plan = how, kinds, random.Random(seed)

    def cut_in(self, seconds):
        """Power goes in so many seconds of emulated time, between two instructions."""
        self._alarm = self._mcu.clock.create_alarm(lambda: self.off("between operations"))
        self._alarm.schedule(seconds * 1e9)

    def off(self, why="switched off"):
        """Power goes now."""
        if not self.cut:
            self.cut = why
            self._switch_off()

    def _operate(self):
        if self.cut:
            return
        ssi = self._mcu.ssi
        command = ssi._tx_buffer
        size = _SIZES.get(command[0]) if len(command) >= 4 and ssi._write_enabled else None
        if not size:
            self._apply()
            return
        kind = "program" if command[0] == chip.CMD_PAGE_PROGRAM else "erase"
        address = ssi._address_from_buffer() & -size
        self.operations.append((kind, address))
        if not self._is_the_last(kind):
            self._apply()
            return
        how, _, dice = self._plan
        if how == "after":
            self._apply()
        elif how == "torn":
            self._tear(address, size, dice)
        self.off(f"{kind} {how}")

    def _is_the_last(self, kind):
        if self._plan and kind in self._plan[1]:
            self._left -= 1
            return not self._left
        return False

    def _tear(self, address, size, dice):
        # The chip works from one end to the other; the byte it was at has some of its bits done.
        flash = self._mcu.flash
        old = bytes(flash[address : address + size])
        self._apply()
        new = bytes(flash[address : address + size])
        changed = [i for i in range(size) if old[i] != new[i]]
        if changed:
            at = dice.choice(changed)
            done = dice.getrandbits(8)
            flash[address + at : address + size] = old[at:]
            flash[address + at] = new[at] & done | old[at] & ~done & 0xFF
