"""Reads a journal's flash by the rules of journal/FORMAT.md in the library, without the code under test. Also writes
sector headers and records, to forge them."""

import struct
from binascii import crc32

OUT, IN, SESSION, NOTE = 3, 5, 6, 9
LIVE, RELEASED, DONE = 0, 1, 2
HEADER, HEAD, CRC, OVERHEAD = 24, 10, 4, 15
NEVER = 0xFF000000
ALIKE = 12  # bytes of an invalid header that are as a number wants them, at least


def zeros(nibble):
    return 4 - bin(nibble).count("1")


class Shape:
    """The device: n sectors of `size` bytes."""

    def __init__(self, n, size):
        self.n, self.size = n, size
        self.geometry = struct.pack("<3sBBBH", b"IFJ", 2, len(bin(size)) - 3, 0, n)

    def header(self, seq, epoch, secret, geometry=None):
        head = (geometry or self.geometry) + struct.pack("<III", seq & 0xFFFFFFFF, epoch, secret)
        return head + struct.pack("<I", crc32(head))

    def lock(self, secret, sector_seq, offset):
        return secret ^ (sector_seq & 0xFFFF) << 16 ^ offset

    def record(self, lock, kind, mid, seq, body, length=None):
        """A live record without its state; `length`: a wrong length of its body."""
        head = struct.pack("<BHHI", kind, len(body) if length is None else length, mid, seq & 0xFFFFFFFF)
        head += bytes([crc32(head) & 255])
        return head + body + struct.pack("<I", crc32(head + body) ^ lock)


class Record:
    def __init__(self, place, kind, mid, seq, state, body):
        self.place, self.kind, self.mid, self.seq, self.state, self.body = place, kind, mid, seq, state, body

    @property
    def key(self):
        return self.kind, self.mid, self.seq, self.state, self.body

    @property
    def header(self):
        return self.kind, self.mid, self.seq, len(self.body)


class Image:
    """The content of the bytes `data` of a device of `shape`. foreign: it is another journal. forged: a header is
    valid and newer than the ring; no fault of a flash makes such a one. records: the valid live ones, in the order of
    the ring. all: done ones, too. next_seq: the lowest free sequence number."""

    def __init__(self, shape, data):
        self.shape, self.data = shape, data
        self.foreign = False
        self.headers = [self._header(i) for i in range(shape.n)]
        self.records, self.all = [], []
        self.next_seq = 0
        if not self.foreign:
            self._elect()
        if self.formatted:
            self._ring()

    formatted = forged = False

    def _header(self, i):
        at = i * self.shape.size
        head = self.data[at : at + 20]
        if head[:3] == b"IFJ" and head[3] != 2 and self._word(at + 16) == crc32(head[:16]):
            self.foreign = True
        if head[:3] != b"IFJ" or self._word(at + 20) != crc32(head):
            return None
        if head[:5] + b"\0" + head[6:8] != self.shape.geometry:  # byte 5 counts losses
            self.foreign = True
        seq = self._word(at + 8)
        return (seq, head[12:20]) if seq < NEVER and seq % self.shape.n == i else None

    def _word(self, at):
        return struct.unpack("<I", self.data[at : at + 4])[0]

    def _due(self, newest, i):
        return newest - (newest - i) % self.shape.n

    def _elect(self):
        votes = []
        for header in self.headers:
            if header:
                agreed = [h == (self._due(header[0], i), header[1]) for i, h in enumerate(self.headers)]
                votes.append((agreed.count(True), header[0], header[1]))
        if votes:
            self.formatted = True
            most = max(v[0] for v in votes)
            _, self.newest, secrets = max([v for v in votes if v[0] == most], key=lambda v: v[1])
            self.secrets = secrets
            self.secret = struct.unpack("<I", secrets[4:])[0]
            due = [(self._due(self.newest, i), secrets) for i in range(self.shape.n)]
            self.forged = any(h and h[1] == secrets and h > due[i] for i, h in enumerate(self.headers))

    def _ring(self):
        n = self.shape.n
        blank = self._damaged_newest()
        order = [(self.newest + k) % n for k in range(1, n + 1)]
        erased = [i for i in order if self._due(self.newest, i) < 0]
        if not erased and self._is_erase_unfinished(order[0], blank):
            erased = order[:1]
        order = [i for i in order if i not in erased]
        sectors = [i for i in order if i not in blank and self._is_kept(i)]
        used = [i for i in sectors if not self._has_single_bits(i)]
        behind = sectors.index(used[-1]) + 1 if used else 0
        used += [i for i in sectors[behind : behind + 1] if self._last(i) >= 0]  # a record that was cut short, perhaps
        for i in sectors:
            self._read(i, bool(used) and i == used[-1])
        found = [r for r in self.all if r.kind in (OUT, NOTE)]
        self.next_seq = max([r.seq + 1 for r in found], default=0)
        last = order[-1] if len(order) == n and used and used[-1] == order[-1] else None
        self._drop_copied(order[0], last)

    def _agreeing(self, i, seq):
        """How many bytes of the header are as the number `seq` wants them."""
        losses = self.data[i * self.shape.size + 5 : i * self.shape.size + 6]
        geometry = self.shape.geometry[:5] + losses + self.shape.geometry[6:]
        right = geometry + struct.pack("<I", seq & 0xFFFFFFFF) + self.secrets
        right += struct.pack("<I", crc32(right))
        return sum(right[k] == self.data[i * self.shape.size + k] for k in range(HEADER))

    def _damaged_newest(self):
        """The sectors behind the newest may be newer, with damaged headers. Returns those that are blank."""
        blank = []
        while self._is_damaged_newest(self.newest + 1):
            self.newest += 1
            i = self.newest % self.shape.n
            if not self._has_record(i):
                blank.append(i)
                self.headers[i] = self.newest, self.secrets
        return blank

    def _is_damaged_newest(self, seq):
        i = seq % self.shape.n
        agreeing, before = self._agreeing(i, seq), self._agreeing(i, seq - self.shape.n)
        if self.headers[i] or max(agreeing, before) < ALIKE or self._has_record(i):
            return False
        self.newest += 1
        found = self._has_record(i)
        self.newest -= 1
        return found or agreeing > before

    def _is_erase_unfinished(self, oldest, blank):
        if self.headers[oldest]:
            return False
        if self._agreeing(oldest, self._due(self.newest, oldest)) >= ALIKE:
            return self._last(oldest) < 0
        return any(self._last(i) >= 0 for i in range(self.shape.n) if i != oldest and i not in blank)

    def _is_kept(self, i):
        due = self._due(self.newest, i)
        right = self.headers[i] == (due, self.secrets)
        alike = not self.headers[i] and self._agreeing(i, due) >= ALIKE
        return right or alike or self._has_record(i)

    def _has_record(self, i):
        end = (i + 1) * self.shape.size
        return self._next(i, end - self.shape.size + HEADER, end) >= 0

    def _has_single_bits(self, i):
        # Nothing else is behind the header: bits that cannot be set.
        at = i * self.shape.size + HEADER
        return all(bin(byte ^ 0xFF).count("1") < 2 for byte in self.data[at : (i + 1) * self.shape.size])

    def _last(self, i):
        # Address of the last non-blank byte of a sector after its header, or -1.
        at = i * self.shape.size + HEADER
        written = len(self.data[at : (i + 1) * self.shape.size].rstrip(b"\xff"))
        return at + written - 1 if written else -1

    def _read(self, i, head):
        at, last = i * self.shape.size + HEADER, self._last(i)
        while at <= last:
            record = self._record(i, at)
            if record:
                at += OVERHEAD + len(record.body)
                self.all.append(record)
                if record.kind != NOTE and record.state != DONE:
                    self.records.append(record)
            elif not self.data[at] & self.data[at] - 1:  # a single bit at most
                at += 1
            else:
                behind = self._next(i, at + 1, last)
                if behind < 0:
                    return
                size = self._told_size(i, at)
                at = min(behind, at + size) if size else behind

    def _next(self, i, at, end):
        return next((k for k in range(at, end) if self._record(i, k)), -1)

    def _told_size(self, i, at):
        if at + OVERHEAD > (i + 1) * self.shape.size:
            return 0
        size = OVERHEAD + struct.unpack("<H", self.data[at + 1 : at + 3])[0]
        right = crc32(self.data[at : at + 9]) & 255 == self.data[at + 9]
        return size if right and at + size <= (i + 1) * self.shape.size else 0

    def _record(self, i, at):
        s = self.shape
        if at + OVERHEAD > (i + 1) * s.size:
            return None
        kind, length, mid, seq = struct.unpack("<BHHI", self.data[at : at + 9])
        end = at + HEAD + length
        if kind not in (OUT, IN, SESSION, NOTE) or seq >= NEVER or end + CRC + 1 > (i + 1) * s.size:
            return None
        if self._word(end) != crc32(self.data[at:end]) ^ s.lock(self.secret, self._due(self.newest, i), at % s.size):
            return None
        state = self.data[end + CRC]
        released = zeros(state >> 4) > 2
        done = zeros(state & 15) > (2 if released else 1)
        state = DONE if done else RELEASED if released else LIVE
        return Record(at, kind, mid, seq, state, self.data[at + HEAD : end])

    def _drop_copied(self, oldest, last):
        """Of a live record of the oldest sector and its copy one remains. The last record may be a copy of the first
        live one; if no sector is erased, the live ones of the `last` sector may be copies."""
        if last is None:
            copies = [r for r in self.records if r is self.all[-1]]
            originals = [r for r in self.records[:1] if r is not self.all[-1] and self._sector(r) == oldest]
        else:
            copies = [r for r in self.records if self._sector(r) == last]
            originals = [r for r in self.records if self._sector(r) == oldest]
        for original in originals:
            found = [k for k, copy in enumerate(copies) if copy.header == original.header]
            if found:
                copy = copies[found[0]]
                copy.state = max(copy.state, original.state)
                self.records.remove(original)
                copies = copies[found[0] + 1 :]

    def _sector(self, record):
        return record.place // self.shape.size
