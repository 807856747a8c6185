# A journal on the file system that a board has anyway, without its costs: n files of one block
# each, whose blocks are used raw. littlefs writes a file's block when the file is written, and
# never again: a block at rest is neither moved nor checked. So what is needed is to know which
# blocks they are (pinning finds that out, at every start) and to notice when one is no longer
# ours: a deleted file's block goes to another file.
#
# Each block's head is therefore compared with what was last seen there before anything is written,
# or read and perhaps sent: four bytes that hold the CRC of the journal's sector header, blank after
# an erase, zeros when the sector is retired. Nobody else's block has them.

from errno import EIO

from ..compat import const

_HEAD = const(20)  # where they are
_PART = const(32)


class PinnedFlash:
    """A block device of `n` files of one block in `folder` of the littlefs that lives on the block
    device `raw` (with the extended protocol: rp2.Flash(), Partition "vfs") and is mounted at `root`.
    They are made if the folder does not exist. page: bytes of one program of `raw`. repaired: how many
    files had been deleted or replaced and were made anew, blank. All raise OSError, and write nothing,
    where a block is no longer ours.
    Raises OSError: ENODEV if no littlefs lives on `raw`, ENOSPC if it is too full; ValueError if
    another number of files is there."""

    where = "pinned files"

    def __init__(self, raw, folder="/journal", n=16, root="", page=256):
        from ..arguments import number, text

        text("folder", folder)
        text("root", root)
        number("n", n, 1, 255)
        number("page", page, 1, 65536, " bytes")
        self.page = page
        self._raw = raw
        self._n = n
        self._size = raw.ioctl(5, 0)
        from .pinning import pin

        self._blocks, self.repaired = pin(raw, folder, root, n)
        self._heads = bytearray(4 * n)
        self._four = bytearray(4)
        self._part = bytearray(_PART)
        for i in range(n):
            self._remember(i)

    def _remember(self, block):
        four = self._four
        heads = self._heads
        self._raw.readblocks(self._blocks[block], four, _HEAD)
        block *= 4
        for b in four:
            heads[block] = b
            block += 1

    def _verify(self, block):
        four = self._four
        heads = self._heads
        self._raw.readblocks(self._blocks[block], four, _HEAD)
        block *= 4
        for b in four:
            if heads[block] != b:
                raise OSError(EIO, "a file of the journal was deleted or replaced: restart")
            block += 1

    def readblocks(self, block, buf, offset=0):
        if offset + len(buf) <= self._size:
            self._verify(block)
            self._raw.readblocks(self._blocks[block], buf, offset)
            return
        # The next block is somewhere else: by small parts, because a slice would allocate.
        part = self._part
        at = block * self._size + offset
        fresh = False
        for i in range(len(buf)):
            k = at % _PART
            if not k or not fresh:
                block = at // self._size
                self._verify(block)
                self._raw.readblocks(self._blocks[block], part, at % self._size - k)
                fresh = True
            buf[i] = part[k]
            at += 1

    def writeblocks(self, block, buf, offset=0):
        self._verify(block)
        try:
            self._raw.writeblocks(self._blocks[block], buf, offset)
        finally:
            if offset <= _HEAD:
                self._remember(block)

    def ioctl(self, op, arg):
        if op == 3:
            self._raw.ioctl(3, 0)
        elif op == 4:
            return self._n
        elif op == 5:
            return self._size
        elif op == 6:
            self._verify(arg)
            try:
                self._raw.ioctl(6, self._blocks[arg])
            finally:
                self._remember(arg)
        return 0
