"""What a journal has on its flash: by its own search, and by the bytes of a NorFlash."""

import struct

from inflight.journal.journal import HEADER, OUT


def numbers(journal):
    """Sequence numbers of the messages, in the order of the ring."""
    found, at = [], -1
    while (at := journal.scan(OUT, at)) >= 0:
        found.append(journal.found_seq)
    return found


def _is_blank(flash, sector):
    """Nothing was programmed behind its header."""
    at = sector * flash.block_size
    return not bytes(flash.data[at + HEADER : at + flash.block_size]).strip(b"\xff")


def erased(flash):
    """How many sectors are erased."""
    return sum(_is_blank(flash, sector) for sector in range(flash.blocks))


def head(flash):
    """The newest sector with records, by the sequence numbers of the sectors' headers."""
    found = []
    for sector in range(flash.blocks):
        header = flash.data[sector * flash.block_size :][:HEADER]
        if header[:3] == b"IFJ" and not _is_blank(flash, sector):
            found.append((struct.unpack("<I", bytes(header[8:12]))[0], sector))
    return max(found)[1]


def tail(flash):
    """The oldest sector: it is behind the erased ones."""
    return (head(flash) + erased(flash) + 1) % flash.blocks


def end(flash):
    """The address behind the last byte of the head that was programmed."""
    at = head(flash) * flash.block_size
    return at + len(bytes(flash.data[at : at + flash.block_size]).rstrip(b"\xff"))
