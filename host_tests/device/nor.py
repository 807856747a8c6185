"""A model of NOR flash that refuses what real flash would spoil in silence, and loses power where it is told to.

    flash = NorFlash(4, 512, page=4)
    flash.cut_at(17, torn(3, 0xA5))    # operation 17 counted from now: programs and erases
    ...                                # PowerCut is raised there, and by every operation afterwards
    flash.power_on()

What stands after a cut is said by a function of (old, new), the bytes before and after the whole operation:
before, after, torn(), suffix(), scattered(), mixed(), zeros.
"""


class PowerCut(BaseException):
    """Not an Exception: no handler of the code under test may survive it."""


class NorFlash:
    def __init__(self, blocks=4, block_size=512, page=256, once=False):
        self.page = page
        self.once = once
        self.blocks = blocks
        self.block_size = block_size
        self.data = bytearray(b"\xff" * (blocks * block_size))
        self.written = bytearray(blocks * block_size // page)  # pages programmed since their erase
        self.programmed = 0  # bytes other than FF
        self.programs = 0
        self.erases = [0] * blocks
        self.syncs = 0
        self.watch = None  # called with ("program" or "erase", place, old, new) before each operation
        self.off = False
        self._left = -1  # operations until the cut
        self._how = None

    # --- power ---

    def cut_at(self, k, how):
        """Lets operation `k` from now (0: the next one) leave how(old, new) and no power."""
        self._left = k
        self._how = how

    def power_on(self):
        self.off = False
        self._left = -1

    def snapshot(self):
        return bytes(self.data), bytes(self.written)

    def restore(self, snapshot):
        self.data[:], self.written[:] = snapshot
        self.power_on()

    # --- the extended block protocol ---

    def readblocks(self, block, buf, offset=0):
        self._alive()
        at = self._place(block, offset, len(buf))
        buf[:] = self.data[at : at + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        self._alive()
        n = len(buf)
        at = self._place(block, offset, n)
        if n == 0 or n % self.page or offset % self.page or offset + n > self.block_size:
            raise ValueError("program of %d bytes at %d: pages are of %d bytes" % (n, offset, self.page))
        old = bytes(self.data[at : at + n])
        new = bytearray(old)
        for i in range(n):
            b = buf[i]
            if b != 0xFF:
                refuse_setting(old[i], b, at + i)
                new[i] &= b
                self.programmed += 1
        first = at // self.page
        pages = n // self.page
        if self.once and any(self.written[first : first + pages]):
            raise ValueError("a page at %d programmed twice" % at)
        self.programs += 1
        self._operate("program", at, old, new)
        self.written[first : first + pages] = b"\1" * pages

    def ioctl(self, op, arg):
        self._alive()
        if op == 3:
            self.syncs += 1
        if op == 4:
            return self.blocks
        if op == 5:
            return self.block_size
        if op == 6:
            self._erase(arg)
        return 0

    def _erase(self, block):
        size = self.block_size
        at = self._place(block, 0, size)
        self.erases[block] += 1
        old = bytes(self.data[at : at + size])
        self._operate("erase", at, old, b"\xff" * size)
        pages = size // self.page
        self.written[block * pages : block * pages + pages] = bytes(pages)

    def _alive(self):
        if self.off:
            raise PowerCut()

    def _place(self, block, offset, n):
        at = block * self.block_size + offset
        if block < 0 or offset < 0 or at + n > len(self.data):
            raise ValueError("%d bytes at block %d, offset %d: outside the flash" % (n, block, offset))
        return at

    def _operate(self, name, at, old, new):
        if self.watch:
            self.watch(name, at, old, bytes(new))
        if self._left == 0:
            self.off = True
            self.land(at, self._how(old, new))
            raise PowerCut()
        self._left -= 1
        self.data[at : at + len(new)] = new

    def land(self, at, left):
        """Puts what a cut left there. A page that is not blank then counts as programmed."""
        self.data[at : at + len(left)] = left
        page = self.page
        for i in range(0, len(left), page):
            if left[i : i + page] != b"\xff" * page:
                self.written[(at + i) // page] = 1


class CachedFlash(NorFlash):
    """A flash behind a cache: what was programmed since the last sync is lost with the power."""

    def __init__(self, *shape):
        super().__init__(*shape)
        self.kept = self.snapshot()

    def ioctl(self, op, arg):
        if op == 3:
            self.kept = self.snapshot()
        return super().ioctl(op, arg)

    def is_durable(self):
        return self.snapshot() == self.kept

    def lose_power(self):
        self.restore(self.kept)


def refuse_setting(old, new, at):
    # A one leaves a bit alone, and what writes FF leaves a byte alone. A nibble that is neither
    # left alone nor cleared further means that the writer took this place for erased.
    for nibble in (0x0F, 0xF0):
        if new & nibble != nibble and new & nibble & ~old:
            raise ValueError("%02x programmed over %02x at %d: bits cannot be set" % (new, old, at))


# --- what is left of an operation ---


def before(old, new):
    return old


def after(old, new):
    return new


def zeros(old, new):
    """An erase that got no further than programming everything first."""
    return bytes(len(old))


def torn(b, mask):
    """All before byte b landed, of byte b the bits of `mask`, nothing behind it."""
    return lambda old, new: bytes(new[:b]) + bytes([_mix(old[b], new[b], mask)]) + old[b + 1 :]


def suffix(b, mask):
    """The same from the end: some chips do it backwards."""
    return lambda old, new: old[:b] + bytes([_mix(old[b], new[b], mask)]) + bytes(new[b + 1 :])


def scattered(seed):
    """Whole bytes landed, here and there."""
    return lambda old, new: bytes(_mix(o, n, 0xFF if r & 64 else 0) for o, n, r in zip(old, new, noise(seed)))


def mixed(seed):
    """Single bits landed, here and there."""
    return lambda old, new: bytes(_mix(o, n, r & 0xFF) for o, n, r in zip(old, new, noise(seed)))


def _mix(old, new, mask):
    return old & ~mask | new & mask


def noise(seed):
    """Endless small numbers, the same ones for the same seed on every interpreter."""
    x = (seed * 7919 + 12345) & 0xFFFFFF
    while True:
        x = (x * 1140671 + 12820163) & 0xFFFFFF
        yield x >> 12
