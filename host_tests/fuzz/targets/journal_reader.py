"""A journal's flash as lib/inflight/FORMAT.md tells it, read a second time, without the code under test.

It also writes sector headers and records, for those who forge them."""

import struct
from binascii import crc32

OUT, IN, SESSION, NOTE = 1, 2, 3, 4
LIVE, RELEASED, DONE = 0, 1, 2
HEADER, HEAD, CRC = 20, 10, 4


def log2(n):
    return len(bin(n)) - 3


class Shape:
    """The device: n sectors of `size` bytes, programmed in pages of `page`, for once or again."""

    def __init__(self, n, size, page, once):
        self.n, self.size, self.once = n, size, once
        self.unit = max(page, 16 if once else 64)
        self.first = self.whole(HEADER) + self.unit if once else HEADER
        self.identity = struct.pack("<3sBBBH", b"IFJ", 1, log2(self.unit) | (128 if once else 0), log2(size), n)

    def whole(self, n):
        """n bytes filled up to whole units, where that is done."""
        return -(-n // self.unit) * self.unit if self.once else n

    def span(self, body):
        """Bytes that a record with a body of so many takes."""
        return self.whole(HEAD + body + CRC) + (2 * self.unit if self.once else 1)

    def header(self, seq, epoch, identity=None):
        head = (identity or self.identity) + struct.pack("<II", seq & 0xFFFFFFFF, epoch)
        return head + struct.pack("<I", crc32(head))

    def record(self, kind, mid, seq, body, length=None):
        """A live record without its marks; `length` if it is to lie about that of its body."""
        head = struct.pack("<HHIB", len(body) if length is None else length, mid, seq & 0xFFFFFFFF, kind)
        head += bytes([crc32(head) & 255])
        return head + body + struct.pack("<I", crc32(head + body))


class Record:
    def __init__(self, place, kind, mid, seq, state, body):
        self.place, self.kind, self.mid, self.seq, self.state, self.body = place, kind, mid, seq, state, body

    @property
    def told(self):
        return self.kind, self.mid, self.seq, self.state, self.body


class Image:
    """What stands in the bytes `data` of a device of `shape`.

    foreign: another journal is here. seqs: of the sectors, -1 where invalid. erase: sectors that a mount erases.
    records: those that count, in the order of the ring. next_seq: lowest number that may be given out."""

    def __init__(self, shape, data):
        self.shape, self.data = shape, data
        self.foreign = False
        self.seqs = [self._sector(i) for i in range(shape.n)]
        self.formatted = max(self.seqs) >= 0
        self.records = []
        self.all = []  # every record with a right CRC, done or not
        self.next_seq = 0
        if self.formatted and not self.foreign:
            self._ring()

    def _sector(self, i):
        at = i * self.shape.size
        head = self.data[at : at + 16]
        if head[:3] != b"IFJ" or struct.unpack("<I", self.data[at + 16 : at + 20])[0] != crc32(head):
            return -1
        if head[:8] != self.shape.identity:
            self.foreign = True
            return -1
        return struct.unpack("<I", head[8:12])[0] if head[11] < 0xFF else -1

    def blank(self, at, end):
        return self.data[at:end] == b"\xff" * (end - at)

    def is_clean(self, i):
        return self.blank(i * self.shape.size + self.shape.first, (i + 1) * self.shape.size)

    def _ring(self):
        s = self.shape
        newest = self.newest = self.seqs.index(max(self.seqs))
        behind = (newest + 1) % s.n
        self.erase = {i for i in range(s.n) if self.seqs[i] < 0}
        mark = newest * s.size + s.first
        if s.once and not self.blank(mark - s.unit, mark):
            self.erase.add(behind)
        elif behind not in self.erase and not self.is_clean(newest):
            self.erase.add(newest)  # the unfinished copy of the oldest
        for k in range(1, s.n + 1):
            i = (newest + k) % s.n
            if i not in self.erase:
                self._read(i)

    def _read(self, i):
        s = self.shape
        at, end = i * s.size + s.first, (i + 1) * s.size
        while at + s.span(0) <= end:
            record = self._record(at, end)
            if record:
                at += s.span(len(record.body))
                self._take(record)
            else:
                at = (at // s.unit + 1) * s.unit

    def _record(self, at, end):
        s = self.shape
        length, mid, seq, kind, check = struct.unpack("<HHIBB", self.data[at : at + HEAD])
        right = check == crc32(self.data[at : at + HEAD - 1]) & 255
        if not right or not OUT <= kind <= NOTE or seq >= 0xFF000000 or at + s.span(length) > end:
            return None
        body = at + HEAD
        mark = at + s.whole(HEAD + length + CRC)
        record = Record(at, kind, mid, seq, self._state(mark), self.data[body : body + length])
        record.intact = crc32(self.data[at : body + length]) == self._word(body + length)
        return record

    def _word(self, at):
        return struct.unpack("<I", self.data[at : at + 4])[0]

    def _state(self, mark):
        unit = self.shape.unit
        if self.shape.once:
            if not self.blank(mark + unit, mark + 2 * unit):
                return DONE
            return LIVE if self.blank(mark, mark + unit) else RELEASED
        b = self.data[mark]
        return LIVE if b == 0xFF else RELEASED if b & 15 == 15 else DONE

    def _take(self, record):
        if not record.intact:
            return
        self.all.append(record)
        if record.kind in (OUT, NOTE):
            self.next_seq = max(self.next_seq, record.seq + 1)
        if record.kind != NOTE and record.state != DONE:
            self.records.append(record)
