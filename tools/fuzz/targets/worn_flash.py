"""A flash with a journal's history and damage, determined by an input's bytes, the same on each interpreter."""

from account import Account
from inflight.journal.journal import DONE, IN, OUT, RELEASED, SESSION, Journal
from journal_reader import HEAD, HEADER, NOTE, OVERHEAD, Shape
from nor import NorFlash, PowerCut, noise, torn
from outcome import demand

# Sectors, bytes of each, page: every granularity of a board, and the extremes that a journal supports.
SHAPES = ((4, 512, 1), (3, 512, 4), (5, 512, 256), (4, 1024, 256))
SHAPES += ((8, 512, 64), (3, 1024, 16), (5, 512, 16), (3, 2048, 64))
EPOCH = 0x12345678
SECRET = 0x9ABCDEF0
_SEQS = (0, 1, 2, 3, 5, 8, 100, 0x7FFFFFFF, 0xFFFFFFF0, 0xFFFFFFFE, 0xFFFFFFFF)


class Flash(NorFlash):
    """Limits the number of reads: a mount that reads without end would not end. flipped: {address: mask} of bits that
    may read 0 though nobody programmed them, until they are erased."""

    def __init__(self, shape):
        super().__init__(*shape)
        self.flipped = {}
        self.reads = 0
        self.most = 8 * shape[0] * shape[1] + 2000

    def readblocks(self, block, buf, offset=0):
        self.reads += 1
        demand(self.reads <= self.most, "%d reads", self.reads)
        super().readblocks(block, buf, offset)

    def _doubtful(self, at):
        return super()._doubtful(at) | self.flipped.get(at, 0)

    def _erase(self, block):
        super()._erase(block)
        self.flipped = {at: mask for at, mask in self.flipped.items() if at // self.block_size != block}

    def put(self, at, data):
        """Replaces bytes, which no program could do."""
        data = data[: max(0, len(self.data) - at)]
        self.data[at : at + len(data)] = data


class _FixedRandom:
    """Replaces `os`: each format gets the same epoch."""

    @staticmethod
    def urandom(n):
        return b"\x5a" * n


def mount(flash):
    """Returns the Journal on flash, whatever the mount does."""
    import inflight.journal.journal as module

    flash.reads = 0
    module.os, whole = _FixedRandom, module.os
    try:
        return Journal(flash)
    finally:
        module.os = whole


def blank(which):
    """(flash, Shape) of a newly formatted journal."""
    flash = Flash(SHAPES[which % len(SHAPES)])
    shape = Shape(flash.blocks, flash.block_size)
    for i in range(shape.n):
        flash.put(i * shape.size, shape.header(i, EPOCH, SECRET))
    return flash, shape


class History:
    """An Account of the journal on `flash`, which judges it after each power cut, and the steps that `reader` has."""

    def __init__(self, flash, reader):
        self._flash = flash
        self._reader = reader
        self._account = Account(flash)
        self.stale = bytes(flash.data)

    def live(self, n):
        """So many steps."""
        for _ in range(n):
            self._flash.reads = 0
            try:
                self._step(self._reader.byte())
            except PowerCut:
                self._flash.power_on()
                self._account.restart()

    def _append(self, kind, n):
        key = self._account.append(kind, min(n, self._account.journal.largest))
        if not key:
            self._mark(0, DONE)
        return key

    def _mark(self, skip, state):
        places = self._account.places
        keys = sorted([key for key in places if key[0] == OUT], key=places.get)
        for key in keys[skip : skip + 1]:
            self._account.mark(key, state)

    def _step(self, op):
        if op < 0x80:
            self._append(OUT, op)
        elif op < 0xA0:
            self._mark(op & 31, DONE)
        elif op < 0xB0:
            self._mark(op & 15, RELEASED)
        elif op < 0xC0:
            self._append(IN, 0)
        elif op < 0xC8:
            self._append(SESSION, 9)
        elif op < 0xD0:
            self._account.journal.collect()
        elif op < 0xD8:
            self.stale = bytes(self._flash.data)
        elif op < 0xE8:
            after, b, mask = self._reader.byte() % 12, self._reader.byte(), self._reader.byte()
            self._flash.cut_at(after, lambda old, new: torn(b % len(old), mask)(old, new))
        else:
            for _ in range(2 * (op & 15) + 2):
                if key := self._append(OUT, 60):
                    self._account.mark(key, DONE)


def _place(flash, reader):
    return reader.word() % len(flash.data)


def _sector(flash, reader):
    return reader.byte() % flash.blocks * flash.block_size


def _flip(flash, shape, reader, stale):
    at = _place(flash, reader)
    flash.data[at] ^= 1 << (reader.byte() & 7)


def _byte(flash, shape, reader, stale):
    flash.data[_place(flash, reader)] = reader.byte()


def _noise(flash, shape, reader, stale):
    at, rows = _place(flash, reader), noise(reader.byte())
    flash.put(at, bytes([next(rows) & 255 for _ in range(4 * reader.byte() + 1)]))


def _fill(flash, shape, reader, stale):
    flash.put(_place(flash, reader), (b"\0", b"\xff", b"\xf0", b"\x0f")[reader.byte() & 3] * (4 * reader.byte() + 1))


def _copy(flash, shape, reader, stale):
    source = _sector(flash, reader)
    flash.put(_sector(flash, reader), bytes(flash.data[source : source + shape.size]))


def _swap(flash, shape, reader, stale):
    a, b = _sector(flash, reader), _sector(flash, reader)
    old = bytes(flash.data[a : a + shape.size])
    flash.put(a, bytes(flash.data[b : b + shape.size]))
    flash.put(b, old)


def _older(flash, shape, reader, stale):
    at = _sector(flash, reader)
    flash.put(at, stale[at : at + shape.size])


def _forget(flash, shape, reader, stale):
    flash.put(_sector(flash, reader), (b"\0", b"\xff")[reader.byte() & 1] * (shape.size if reader.byte() & 1 else 24))


def _forge_sector(flash, shape, reader, stale):
    at, seq, other = _sector(flash, reader), _SEQS[reader.byte() % len(_SEQS)], reader.byte()
    geometry = shape.geometry[:3] + b"\1" + shape.geometry[4:] if other == 255 else shape.geometry
    flash.put(at, shape.header(seq, EPOCH, SECRET, geometry))


def _forge_record(flash, shape, reader, stale):
    start = _sector(flash, reader)
    at = start + HEADER
    for _ in range(reader.byte() & 7):  # after possible records
        length = flash.data[at + 1] | flash.data[at + 2] << 8
        if at % shape.size + length + 2 * OVERHEAD > shape.size:
            break
        at += length + OVERHEAD
    how, kind, seq = reader.byte(), (OUT, IN, SESSION, NOTE, 0, 7)[reader.byte() % 6], _SEQS[reader.byte() % len(_SEQS)]
    mid, text = reader.word(), reader.bytes(reader.byte() & 31)
    space = shape.size - at % shape.size - OVERHEAD
    length = (len(text), 0xFFFF, space, space + 1, 0, shape.size)[how % 6]
    sector_seq = flash.data[start + 8] | flash.data[start + 9] << 8
    lock = shape.lock(SECRET, sector_seq, at - start) if how & 64 else how
    data = shape.record(lock, kind, mid, seq, text, length)
    flash.put(at, data if how & 128 else data[: HEAD + how % 16])


def _raw(flash, shape, reader, stale):
    flash.put(_place(flash, reader), reader.bytes(reader.byte()))


_DAMAGES = (_flip, _byte, _noise, _fill, _copy, _swap, _older, _forget, _forge_sector, _forge_record, _raw)


def damage(flash, shape, reader, stale, most=16):
    """Damages the flash as the rest of `reader` tells."""
    flash.reads = 0
    if not reader.left:
        return
    for _ in range(most):
        if reader.left:
            _DAMAGES[reader.byte() % len(_DAMAGES)](flash, shape, reader, stale)
    # A sector with such bytes passes for erased (FORMAT.md, rule 3 of "Which sectors count").
    flash.flipped = {at: 0xFF & ~b for at, b in enumerate(flash.data) if b < 0xFF and not ~b & 0xFF & (~b & 0xFF) - 1}
