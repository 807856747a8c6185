"""Power cuts. Every program and erase of the flash chip is seen here, and can be the last."""

from rp2040py.peripherals import ssi as chip

from tools.emulators import power

_SIZES = {chip.CMD_PAGE_PROGRAM: 256, chip.CMD_SECTOR_ERASE: 4096, chip.CMD_BLOCK_ERASE: 65536}


class Power(power.Power):
    """The power of the board whose chip is `mcu`."""

    def __init__(self, mcu, switch_off):
        super().__init__(switch_off)
        self._mcu = mcu
        self._alarm = None
        self._apply = mcu.ssi._apply_command
        mcu.ssi._apply_command = self._operate

    def cut_in(self, seconds):
        """Power goes in so many seconds of emulated time, between two instructions."""
        self._alarm = self._mcu.clock.create_alarm(lambda: self.off("between operations"))
        self._alarm.schedule(seconds * 1e9)

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
        flash = self._mcu.flash
        old = bytes(flash[address : address + size])
        self._apply()
        left = self._operated(kind, address, old, bytes(flash[address : address + size]))
        if left is not None:
            flash[address : address + size] = left
