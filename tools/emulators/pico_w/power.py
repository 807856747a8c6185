"""Power cuts. Every program and erase of the flash chip is seen here, and can be the last."""

from rp2040py.peripherals import ssi as chip

from tools.emulators.power import Plan

_SIZES = {chip.CMD_PAGE_PROGRAM: 256, chip.CMD_SECTOR_ERASE: 4096, chip.CMD_BLOCK_ERASE: 65536}


class Power:
    """The power of one board. operations: (kind, address) of each flash operation so far. cut: how it went off, or
    None while it is on. on_operation(kind, address, old, new) is told of each, and what it changes."""

    def __init__(self, mcu, switch_off):
        self.operations = []
        self.cut = None
        self.on_operation = None
        self._mcu = mcu
        self._switch_off = switch_off
        self._plan = None
        self._alarm = None
        self._apply = mcu.ssi._apply_command
        mcu.ssi._apply_command = self._operate

    def cut_at_operation(self, *plan):
        """Power goes as Plan(*plan) says."""
        self._plan = Plan(*plan)

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
        flash = self._mcu.flash
        old = bytes(flash[address : address + size])
        self._apply()
        new = bytes(flash[address : address + size])
        if self.on_operation:
            self.on_operation(kind, address, old, new)
        if self._plan and self._plan.is_due(kind):
            flash[address : address + size] = self._plan.left_behind(old, new)
            self.off(f"{kind} {self._plan.how}")
