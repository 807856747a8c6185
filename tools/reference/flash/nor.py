"""A model of NOR flash that refuses programs which real flash would corrupt silently, and that can lose power:

    flash = NorFlash(4, 512, page=4)
    flash.cut_at(17, torn(3, 0xA5))    # at operation 17 from now, counting programs and erases
    ...                                # PowerCut is raised there, and by every operation afterwards
    flash.power_on()

A function of (old, new), the bytes before and after the whole operation, returns the bytes after the cut: before,
after, torn(), suffix(), scattered(), mixed(), zeros; undecided() returns also which bits read differently at each read.

Other faults:

    NorFlash(cache=True)               # unsynced operations may be lost at a cut, each independently; see CachedFile
    flash.fail_at(3, "program")        # operation 3 from now raises OSError; its docstring tells of other failures
    flash.stuck[at] = 0x10             # these bits of a byte cannot be cleared
    flash.low[at] = 0x10               # these bits of a byte cannot be set: from the next erase on they are 0
    flash.unstable[at] = 0x10          # these bits of a byte read at random after each power_on()
    flash.undecided[at] = 0x10         # these bits of a byte read at random at each read
"""

from errno import EIO


class PowerCut(BaseException):
    """Not an Exception, so that no handler of the code under test catches it."""


class Interrupted(BaseException):
    """Ctrl-C."""


class NorFlash:
    def __init__(self, blocks=4, block_size=512, page=256, cache=False, seed=1):
        self.page = page
        self.blocks = blocks
        self.block_size = block_size
        self.data = bytearray(blocks * block_size)  # MicroPython's heap may have no space for another copy of it
        for at in range(0, len(self.data), block_size):
            self.data[at : at + block_size] = b"\xff" * block_size
        self.reads = 0
        self.programmed = 0  # bytes other than FF
        self.programs = 0
        self.erases = [0] * blocks
        self.syncs = 0
        self.watch = None  # called with ("program" or "erase", address, old, new) before each operation
        self.off = False
        self.stuck = {}
        self.low = {}
        self.unstable = {}
        self.undecided = {}
        self.on_worn = None  # called after each program of bytes that then read otherwise because of stuck or low bits
        self._random = noise(seed)  # of what reads at random
        self._cache = [] if cache else None  # (address, old, new) of each operation since the last sync
        self._left = -1  # operations before the power cut
        self._outcome = self._lost = None
        self._until = {}  # kind of fault: operations before it

    # --- power ---

    def cut_at(self, k, outcome, lost=None):
        """Cuts the power at operation `k` from now (0: the next one), which leaves outcome(old, new). lost: a seed;
        some unsynced operations before it are lost too."""
        self._left = k
        self._outcome = outcome
        self._lost = lost

    def lose_cache(self, seed=None):
        """Each unsynced operation is lost or kept independently, as `seed` decides; the order of those kept stays."""
        if seed is not None:
            self._random = noise(seed)
        if not self._cache:
            return
        for at, old, _ in reversed(self._cache):
            self.data[at : at + len(old)] = old
        for at, old, new in self._cache:
            if next(self._random) & 1:
                self.data[at : at + len(new)] = _applied(self.data[at : at + len(new)], old, new)
        del self._cache[:]

    def is_durable(self):
        """True if a power cut would lose nothing."""
        return not self._cache

    def lose_power(self):
        """Loses all unsynced operations."""
        for at, old, _ in reversed(self._cache):
            self.data[at : at + len(old)] = old
        del self._cache[:]
        self.power_on()

    def power_on(self):
        self.off = False
        self._left = -1
        self._until.clear()
        self.lose_cache()
        for at, mask in self.unstable.items():
            self.data[at] = self.data[at] & ~mask | next(self._random) & mask

    def fail_at(self, k, outcome="program"):
        """Operation `k` from now (0: the next one) fails: "program", a program or erase that raises OSError; "ignore",
        one that does nothing; "read"; "interrupt", Ctrl-C before an operation of any kind; "interrupted", behind it.
        k below 0: none does. Returns whether one was still to fail so."""
        waited = self._until.pop(outcome, None) is not None
        if k >= 0:
            self._until[outcome] = k
        return waited

    def _fails(self, outcome):
        k = self._until.pop(outcome, -1)
        if k > 0:
            self._until[outcome] = k - 1
        return k == 0

    def _interrupt(self, when):
        if self._fails(when):
            raise Interrupted

    def snapshot(self):
        return bytes(self.data)

    def unsynced(self):
        """The operations since the last sync, for restore()."""
        return tuple(self._cache or ())

    def restore(self, snapshot, unsynced=(), seed=1):
        """Restores a snapshot. Some of the operations `unsynced` are lost, as `seed` decides."""
        self.data[:] = snapshot
        self.unstable.clear()
        self.undecided.clear()
        if self._cache is not None:
            self._cache[:] = unsynced
            self._random = noise(seed)
        self.power_on()

    # --- the extended block protocol ---

    def readblocks(self, block, buf, offset=0):
        if self.off or self._until:  # here most of the time of tests goes
            self._check_power()
            self._interrupt("interrupt")
            if self._fails("read"):
                raise OSError(EIO, "read")
        self.reads += 1
        at = self._address(block, offset, len(buf))
        buf[:] = self.data[at : at + len(buf)]
        if self.undecided:
            for i, mask in self.undecided.items():
                if at <= i < at + len(buf):
                    buf[i - at] = buf[i - at] & ~mask | next(self._random) & mask
        if self._until:
            self._interrupt("interrupted")

    def writeblocks(self, block, buf, offset=0):
        self._check_power()
        self._interrupt("interrupt")
        n = len(buf)
        at = self._address(block, offset, n)
        if n == 0 or n % self.page or offset % self.page or offset + n > self.block_size:
            raise ValueError("program of %d bytes at %d: pages are of %d bytes" % (n, offset, self.page))
        old = bytes(self.data[at : at + n])
        new = bytearray(old)
        for i in range(n):
            b = buf[i]
            if b != 0xFF:
                refuse_setting(old[i] | self._doubtful(at + i), b, at + i)
                new[i] &= b
                self.programmed += 1
        self.programs += 1
        self._operate("program", at, old, bytes(new), buf)
        if self.on_worn and (self.stuck or self.low) and self._reads_otherwise(at, buf):
            self.on_worn()
        self._interrupt("interrupted")

    def _reads_otherwise(self, at, buf):
        # FF at the ends is what the writer leaves alone.
        buf = bytes(buf)
        first, end = len(buf) - len(buf.lstrip(b"\xff")), len(buf.rstrip(b"\xff"))
        for i in range(first, end):
            b = self.data[at + i]
            if b & ~buf[i] & self.stuck.get(at + i, 0) or buf[i] & ~b & self.low.get(at + i, 0):
                return True
        return False

    def ioctl(self, op, arg):
        self._check_power()
        if op == 4:
            return self.blocks
        if op == 5:
            return self.block_size
        self._interrupt("interrupt")
        if op == 3:
            self.syncs += 1
            if self._cache:
                del self._cache[:]
        if op == 6:
            self._erase(arg)
        self._interrupt("interrupted")
        return 0

    def _erase(self, block):
        size = self.block_size
        at = self._address(block, 0, size)
        self.erases[block] += 1
        old = bytes(self.data[at : at + size])
        self._operate("erase", at, old, b"\xff" * size, bytes(size))

    def _check_power(self):
        if self.off:
            raise PowerCut()

    def _address(self, block, offset, n):
        at = block * self.block_size + offset
        if block < 0 or offset < 0 or at + n > len(self.data):
            raise ValueError("%d bytes at block %d, offset %d: outside the flash" % (n, block, offset))
        return at

    def _operate(self, name, at, old, new, left):
        # left: 1 in each bit that the operation does not touch. It stays undecided, in a byte that does not change.
        if self.watch:
            self.watch(name, at, old, new)
        if self._left == 0:
            self.off = True
            if self._lost is None:
                self._cache = self._cache and []
            else:
                self.lose_cache(self._lost)
            self.overwrite(at, old, self._outcome(old, new))
            raise PowerCut()
        self._left -= 1
        if self._fails("program"):
            raise OSError(EIO, name)
        if self._fails("ignore"):
            return
        new = self._without_stuck(at, old, new)
        if self._cache is not None:
            self._cache.append((at, old, new))
        for i in self.unstable:
            if at <= i < at + len(new):
                self.unstable[i] &= left[i - at] if new[i - at] == old[i - at] else 0
        for i in [i for i in self.undecided if at <= i < at + len(new)]:
            self.undecided[i] &= left[i - at]
            if not self.undecided[i]:
                del self.undecided[i]
        self.data[at : at + len(new)] = new

    def _without_stuck(self, at, old, new):
        # What the operation makes of old, when it should be new.
        if not self.stuck and not self.low:
            return new
        new = bytearray(new)
        for i, mask in self.stuck.items():
            if at <= i < at + len(new):
                new[i - at] |= old[i - at] & mask
        for i, mask in self.low.items():
            if at <= i < at + len(new):
                new[i - at] &= old[i - at] | ~mask
        return bytes(new)

    def _doubtful(self, at):
        # Bits that may read 0 though nobody programmed them.
        return self.undecided.get(at, 0) | self.low.get(at, 0)

    def overwrite(self, at, old, left):
        """Puts the outcome of a cut operation at this address, in place of `old`."""
        left, undecided = left if isinstance(left, tuple) else (left, b"")
        self.data[at : at + len(left)] = _applied(self.data[at : at + len(left)], old, left)
        if undecided:
            self._random = noise(sum(undecided))
        for i, mask in enumerate(undecided):
            if mask:
                self.undecided[at + i] = mask


class CachedFile(NorFlash):
    """A file: what is written is durable with the next sync."""

    def __init__(self, blocks=4, block_size=1024):
        super().__init__(blocks, block_size, 1, True)

    def program(self, at, buf, off, n):
        if n:
            self.writeblocks(at // self.block_size, bytes(buf[off : off + n]), at % self.block_size)


def _applied(now, old, new):
    # Applies the change from old to new to the present bytes, which differ if earlier operations were lost.
    return bytes(b if o == n else n if n & ~o else b & n for b, o, n in zip(now, old, new))


def refuse_setting(old, new, at):
    # A nibble may stay (written as F) or lose bits. Otherwise the writer took programmed bytes for erased.
    for nibble in (0x0F, 0xF0):
        if new & nibble != nibble and new & nibble & ~old:
            raise ValueError("%02x programmed over %02x at %d: bits cannot be set" % (new, old, at))


def before(old, new):
    return old


def after(old, new):
    return new


def zeros(old, new):
    """An erase that was cut while it programmed all bits to zero."""
    return bytes(len(old))


def torn(b, mask):
    """All bytes before byte b are new, of byte b the bits of `mask`; later bytes are old."""
    return lambda old, new: bytes(new[:b]) + bytes([_mix(old[b], new[b], mask)]) + old[b + 1 :]


def suffix(b, mask):
    """The same from the end: some chips program backwards."""
    return lambda old, new: old[:b] + bytes([_mix(old[b], new[b], mask)]) + bytes(new[b + 1 :])


def scattered(seed):
    """Random bytes are new."""
    return lambda old, new: bytes(_mix(o, n, 0xFF if r & 64 else 0) for o, n, r in zip(old, new, noise(seed)))


def mixed(seed):
    """Random bits are new."""
    return lambda old, new: bytes(_mix(o, n, r & 0xFF) for o, n, r in zip(old, new, noise(seed)))


def undecided(seed):
    """Of the bits that change some are new, some are old, others read differently at each read: all of them; those of a
    few bytes, the bytes before them being new; or any."""

    def outcome(old, new):
        changed = [i for i in range(len(old)) if old[i] != new[i]]
        toss = noise(seed)
        left, masks = bytearray(old), bytearray(len(old))
        begin = next(toss) % len(changed) if changed else 0
        for k, i in enumerate(changed):
            if seed % 3 == 1 and k < begin:
                left[i] = new[i]
            elif seed % 3 != 1 or k < begin + 3:
                wild = 0xFF if seed % 3 == 0 else next(toss) & 0xFF
                left[i] = _mix(old[i], new[i], next(toss) & 0xFF)
                masks[i] = (old[i] ^ new[i]) & wild
        return bytes(left), bytes(masks)

    return outcome


def _mix(old, new, mask):
    return old & ~mask | new & mask


def noise(seed):
    """Endless pseudo-random small numbers, the same for a seed on every interpreter."""
    x = (seed * 7919 + 12345) & 0xFFFFFF
    while True:
        x = (x * 1140671 + 12820163) & 0xFFFFFF
        yield x >> 12
