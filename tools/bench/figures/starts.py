"""How often a start reads the flash: exact, and the same on each machine. CPython mounts a model of flash."""

from account import quick_crc
from inflight.journal.journal import DONE, OUT, Journal
from nor import NorFlash

_SECTORS = {"64 KiB": 16, "256 KiB": 64, "1 MiB": 256, "4 MiB": 1024, "8 MiB": 2048}


class LongFlash(NorFlash):
    """Without what a model of power cuts needs, which takes its time. read: the sectors from which more than a header,
    and what is behind it, was read."""

    read: set = set()

    def readblocks(self, block, buf, offset=0):
        self.reads += 1
        if len(buf) > 40:
            self.read.add(block)
        at = block * self.block_size + offset
        buf[:] = self.data[at : at + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        at, n = block * self.block_size + offset, len(buf)
        both = int.from_bytes(self.data[at : at + n], "little") & int.from_bytes(buf, "little")
        self.data[at : at + n] = both.to_bytes(n, "little")

    def _erase(self, block):
        self.erases[block] += 1
        at = block * self.block_size
        self.data[at : at + self.block_size] = b"\xff" * self.block_size


def fill(journal, n=95):
    """Messages of n bytes wait, as many as fit."""
    while journal.fits(OUT, n):
        journal.append(OUT, journal.last_mid % 65535 + 1, bytes(n), n)
    journal.commit()


def go_round(journal, n=95):
    """All messages are completed at once."""
    while min(journal._dev.erases) < 2:
        journal.mark(journal.append(OUT, journal.last_mid % 65535 + 1, bytes(n), n), DONE)
    journal.commit()


def start(flash):
    """The Journal, how often it has read, and from how many sectors more than a header."""
    flash.reads, flash.read = 0, set()
    return Journal(flash), flash.reads, len(flash.read)


def starts(sizes=_SECTORS):
    """{size: {what is there: reads}}, of full rings and of those that went around, and with a damaged header."""
    quick_crc()
    found = {}
    for size in sizes:
        found[size] = {}
        for name, work in (("full", fill), ("gone round", go_round)):
            flash = LongFlash(_SECTORS[size], 4096, 256)
            work(Journal(flash))
            found[size][name] = start(flash)[1]
            flash.data[_SECTORS[size] // 2 * 4096 + 9] ^= 1
            found[size][name + ", a damaged header"] = start(flash)[1]
    return found
