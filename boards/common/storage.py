# Selects the storage of a board's journal: the first available of three. The attribute `where` of the result
# describes it for users.


class _Partition:
    # Wraps a block device that cannot have attributes, with those that the journal and health messages need.
    where = "partition"
    repaired = 0

    def __init__(self, device, page):
        self.readblocks = device.readblocks
        self.writeblocks = device.writeblocks
        self.ioctl = device.ioctl
        self.page = page


class _End(_Partition):
    # The last `blocks` blocks of a partition.

    def __init__(self, device, page, blocks):
        self._device = device
        self._first = device.ioctl(4, 0) - blocks
        self._blocks = blocks
        self.page = page

    def readblocks(self, block, buf, offset=0):
        self._device.readblocks(self._first + block, buf, offset)

    def writeblocks(self, block, buf, offset=0):
        self._device.writeblocks(self._first + block, buf, offset)

    def ioctl(self, op, arg):
        if op == 4:
            return self._blocks
        return self._device.ioctl(op, arg + self._first if op == 6 else arg)


def _blocks_of(device):
    # Of the journal whose end is that of the partition `device`: it keeps its size if a larger partition took the place
    # of its own. Its last sectors tell how many it has, see FORMAT.md; one of them may have no header at the moment.
    from binascii import crc32

    header = bytearray(24)
    blocks = device.ioctl(4, 0)
    for i in range(blocks - 1, max(-1, blocks - 4), -1):
        device.readblocks(i, header, 0)
        if header[:3] == b"IFJ" and int.from_bytes(header[20:], "little") == crc32(header[:20]):
            return min(blocks, header[6] | header[7] << 8)
    return blocks


def journal_flash(partition=None, raw=None, folder="/journal", root="", page=256, kb=64):
    """Picks, in this order: `partition`, a block device of the journal's own; pinned files in
    `folder` of the littlefs that lives on the block device `raw` and is mounted at `root` (rp2.Flash(),
    Partition "vfs"); slot files in `folder` of whatever is mounted at `root`. page: bytes of one
    program of the device given, which reads as FF where it is erased. kb: KiB of pinned files that are made, 0:
    none; what is there keeps its size, also at the end of a larger partition. A partition and slot files have their
    own.
    Returns a block device for Journal() with `where` ("partition", "pinned files" or "slot files")
    and `repaired`, how many of its files had been deleted or replaced and were made anew, blank.
    Raises OSError if the file system is full or cannot be written, ValueError if it holds files of two
    journals."""
    if partition:
        blocks = _blocks_of(partition)
        return _Partition(partition, page) if blocks == partition.ioctl(4, 0) else _End(partition, page, blocks)
    from errno import ENODEV

    if raw:
        from inflight.flash.pinned import PinnedFlash

        try:
            return PinnedFlash(raw, folder, kb * 1024 // raw.ioctl(5, 0), root, page)
        except OSError as e:
            if e.errno != ENODEV:  # raised if there is no littlefs on `raw`
                raise
    from inflight.flash.slots import SlotFlash

    return SlotFlash(root + folder)
