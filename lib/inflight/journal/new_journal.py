# What a journal knows before it is mounted. Loaded when one is made.

from array import array

from .pages import CHUNK
from .records import HEAD, HEADER, OVERHEAD


def prepare(j, device):
    """The fields of Pages, Records and Journal. Raises ValueError."""
    if not (hasattr(device, "readblocks") and hasattr(device, "ioctl")):
        from ..arguments import refuse

        refuse("device", "a block device with readblocks() and ioctl(), like RamFlash()", device)
    n = j._n = device.ioctl(4, 0)
    size = j._size = device.ioctl(5, 0)
    _prepare_pages(j, device)
    _prepare_records(j)
    space = size - HEADER
    # Of a ring of many sectors one more stays erased: then the oldest of a backlog can be given up without copying.
    # In RAM an append may erase as often as it likes.
    j._capacity = (n - (2 if n < 6 else 3)) * space * (21 if j._volatile else 14) // 24
    j.reserve = min(space // 2, 1024)  # bytes that are kept for records of other kinds than OUT
    j.limit = j._capacity - j.reserve
    j.largest = space - OVERHEAD
    j.size = n * size
    if n < 3 or size % j._unit or size > 65536 or size < 2 * j._unit or j.largest < 64:
        raise ValueError("journal: at least 3 sectors of several pages")
    j.owner = None  # its moved(old, new) hears of a record that has another address
    j._live = array("H", bytes(2 * n))  # bytes of live records in each sector
    j._dirty = False  # something is not durable yet
    j._others = 0  # bytes of live records that are no OUT
    j._begun = -1  # number of the last OUT record until it is durable


def _prepare_pages(j, device):
    j._dev = device
    j._write = getattr(device, "program", None)
    j._volatile = getattr(device, "volatile", False)
    # Small pages are programmed several at a time.
    j._unit = max(getattr(device, "page", 256), CHUNK)
    j._page = bytearray(j._unit)  # see clear_page() of sector_reader
    j._chunk = bytearray(CHUNK)
    j._four = bytearray(4)
    j._crc = array("H", bytes(4))  # in which add_to_crc() takes the halves of a CRC, and gives them back
    j._bad = -1  # address of the last page that did not take what was programmed
    j._worn = -1  # the sector in which a record was not taken last, also when it has been passed by


def _prepare_records(j):
    j._h = bytearray(HEAD)
    j._part = bytearray(32)  # what is copied on its way
    j._mark = bytearray(1)
    j.found_seq = j.found_mid = j.found_len = j.found_state = j._kind = 0
    j._salt_low = j._salt_high = 0
    j.next_seq = 0
    j._head = j._erased = j.erases = 0  # the sector written to, erased ones ahead, erases ever
    j._ok = False  # no operation was interrupted
