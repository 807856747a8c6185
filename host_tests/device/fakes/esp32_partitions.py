"""Two partitions for the firmware of an ESP32, and its bootloader: what esp32.Partition and machine do with them."""

from ports import Module

SECTOR = 4096
FIRST, SECOND = 0x10, 0x11  # subtypes: ota_0, ota_1
POWER_ON, RESET = 1, 2
VALID, NEW, PENDING, ABORTED = "valid", "new", "pending", "aborted"


class Reset(Exception):
    """The chip starts again."""


class PowerCut(BaseException):
    """Not an Exception, so that no handler of the code under test catches it."""


def firmware(number, size, chip=0):
    """The bytes of a firmware: its header names the chip."""
    return b"\xe9" + bytes(11) + bytes([chip, 0]) + bytes([number]) * (size - 14)


class Chip:
    """An ESP32 whose firmware, number 1, runs from the first of `parts` partitions. Its power goes at operation
    `cut_at`."""

    def __init__(self, sectors=4, parts=2):
        self.content = {FIRST + k: bytearray(b"\xff" * (sectors * SECTOR)) for k in range(parts)}
        self.content[FIRST][:100] = firmware(1, 100)
        self.states = {FIRST: VALID}
        self.selected = self.running = FIRST
        self.cause = POWER_ON
        self.cut_at = -1
        self.operations = 0
        self.machine = Module(
            PWRON_RESET=POWER_ON,
            HARD_RESET=RESET,
            reset_cause=lambda: self.cause,
            reset=self.reset,
            WDT=lambda timeout: None,
        )
        self.inside = Module(Partition=_class(self))

    def operation(self):
        """Something that the power may interrupt begins."""
        if self.operations == self.cut_at:
            self.operations += 1
            raise PowerCut
        self.operations += 1

    def reset(self):
        raise Reset

    def boot(self, cause):
        """The bootloader: starts what is selected; but what was tried once and is not valid, no more."""
        if self.states.get(self.selected) == PENDING:
            self.states[self.selected] = ABORTED
        if self.states.get(self.selected) == ABORTED:
            self.selected = next(part for part in self.states if self.states[part] == VALID)
        if self.states[self.selected] == NEW:
            self.states[self.selected] = PENDING
        self.running = self.selected
        self.cause = cause


def _class(chip):
    class Partition:
        TYPE_APP, TYPE_DATA, RUNNING = 0, 1, "running"

        def __init__(self, what):
            self._subtype = chip.running if what == "running" else what
            self._data = chip.content[self._subtype]

        @staticmethod
        def find(type, subtype):
            return [Partition(subtype)] if type == 0 and subtype in chip.content else []

        def info(self):
            return 0, self._subtype, 0x10000, len(self._data), "ota", False

        def readblocks(self, block, buf, offset):
            at = block * SECTOR + offset
            buf[:] = self._data[at : at + len(buf)]

        def writeblocks(self, block, buf, offset):
            at = block * SECTOR + offset
            assert offset + len(buf) <= SECTOR
            assert self._data[at : at + len(buf)] == b"\xff" * len(buf), "it was not erased"
            try:
                chip.operation()
            except PowerCut:
                buf = buf[: len(buf) // 2]  # torn
                raise
            finally:
                self._data[at : at + len(buf)] = buf

        def ioctl(self, op, block):
            assert op == 6
            n = SECTOR
            try:
                chip.operation()
            except PowerCut:
                n //= 2  # torn
                raise
            finally:
                self._data[block * SECTOR : block * SECTOR + n] = b"\xff" * n
            return 0

        def get_next_update(self):
            if len(chip.content) < 2:
                raise OSError(2)
            return Partition(FIRST + SECOND - chip.running)

        def set_boot(self):
            if self._data[0] != 0xE9:
                raise OSError(-0x1503)  # ESP_ERR_OTA_VALIDATE_FAILED
            chip.operation()
            chip.selected = self._subtype
            chip.states[self._subtype] = NEW

        @staticmethod
        def mark_app_valid_cancel_rollback():
            chip.operation()
            chip.states[chip.running] = VALID

    return Partition
