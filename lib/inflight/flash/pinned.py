# A journal on the file system that a board has anyway, without its costs: n files of one block each, whose blocks are
# used raw. littlefs writes a file's block when the file is written, and never again: a block at rest is neither moved
# nor checked. So what is needed is to know which blocks they are (pin() finds that out, at every start) and to notice
# when one is no longer ours: a deleted file's block goes to another file.
#
# Each block's head is therefore compared with what was last seen there before anything is written,
# or read and perhaps sent: four bytes that hold the CRC of the journal's sector header, blank after
# an erase, zeros when the sector is retired. Nobody else's block has them.

import os
import struct
import time
from array import array
from binascii import crc32
from errno import EEXIST, EIO, ENODEV, ENOENT
from hashlib import sha256

from ..compat import const
from ..journal.pages import copy_bytes, has_taken

_HEAD = const(20)  # where they are
_PART = const(32)
_MOST = const(255)  # files
_DIGEST = const(16)  # bytes: with few blocks the file has its content in its folder, and takes no block


class PinnedFlash:
    """A block device of `n` files of one block in `folder` of the littlefs that lives on the block device `raw` (with
    the extended protocol: rp2.Flash(), Partition "vfs") and is mounted at `root`. They are made if the folder does not
    exist (n = 0: ENOENT then); if it does, its files keep their number until grow(). page: bytes of one program of
    `raw`. blocks: grow() knows them already. repaired: how many files had been deleted or replaced and were made anew,
    blank. All raise OSError, and write nothing, where a block is no longer ours. Raises OSError: ENODEV if no littlefs
    lives on `raw`, _ENOSPC if it is too full; ValueError if the files of two sets are there."""

    where = "pinned files"

    def __init__(self, raw, folder="/journal", n=16, root="", page=256, blocks=None):
        from ..arguments import number, text

        text("folder", folder)
        text("root", root)
        number("n", n, 0, _MOST)
        number("page", page, 1, 65536, " bytes")
        self.page = page
        self._raw = raw
        self._folder = folder
        self._root = root
        self._size = raw.ioctl(5, 0)
        self._blocks, self.repaired = (blocks, 0) if blocks else pin(raw, folder, root, n)
        self._n = n = len(self._blocks)
        self._heads = bytearray(4 * n)
        self._four = bytearray(4)
        self._part = bytearray(_PART)
        for i in range(n):
            self._remember(i)

    def grow(self, journal, n):
        """Makes the set one of `n` files, if those are more. journal: the Journal on it, which no client uses yet; it
        is copied, and takes as much RAM meanwhile. Until the new set is complete, the one that is there stays.
        Returns (device, Journal) to go on with: the same ones if there are as many files, or if the file system, or
        RAM, has no space for both sets. Raises ValueError, OSError."""
        from ..arguments import number

        number("n", n, 0, _MOST)
        if n <= self._n:
            return self, journal
        return grow(self, journal, n)

    def _remember(self, block):
        self._raw.readblocks(self._blocks[block], self._four, _HEAD)
        copy_bytes(self._heads, 4 * block, self._four, 0, 4)

    def _verify(self, block):
        self._raw.readblocks(self._blocks[block], self._four, _HEAD)
        if not has_taken(self._four, 0, 4, self._heads, 4 * block, True):
            raise OSError(EIO, "a file of the journal was deleted or replaced: restart")

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


# --- finding the blocks, and making what is missing ---
# littlefs itself tells where a file is: a second one, never mounted, reads the file through a
# device that notes which block it is asked for. Nothing of the metadata's format is known here.
#
# A file's name is its proof: <slot><n>-<block>-<mtime>-<check>, in hex. littlefs never writes a block of data in place,
# so a file that was overwritten, copied back or restored is in another block, or has another time, than its name says;
# one that was renamed has a wrong check. No such file is obeyed, whatever is in it. What cannot be told from the file
# itself is a copy that got the very block in the very second of the clock. littlefs stores the time since 1970, and so
# does the name: os.stat() of some ports counts from 2000, and the next firmware may be of the other kind.
#
# A set is made in a folder of another name, which is renamed when all is there: so where the folder is, a complete set
# was. A file has a temporary name until its block is known. What power cut leaves is removed at the next start. A set
# that grows is made in the folder, next to the one that is there, and its files get their names when all is copied to
# them. So the larger set counts as soon as it is complete, and the files of the other one are removed.
#
# For each file littlefs reads the folder anew: 64 files take an RP2040 0.9 s. So a digest of what it reads of it
# is kept with the blocks, once each file is where its name says. While the digest is the same, nothing in the folder
# was changed: littlefs writes there whatever becomes of a file. No CRC would do: each of its commits ends with one.

_ENOSPC = 28  # MicroPython's errno has no name for it
_CHUNK = 64
_OF_A_NAME = const(256)  # bytes of littlefs' metadata that a file takes at most, in both copies of a block half full
_2000 = 946_684_800  # seconds from 1970 to 2000


class ReadTracer:
    """A block device to read from, that notes the last block asked for. others: a set, to which those asked for are
    added, or None. hash: takes what is read from blocks that are not among `others`, and where that is; or None."""

    def __init__(self, raw):
        self._raw = raw
        self.block = -1
        self.others = self.hash = None

    def readblocks(self, block, buf, offset=0):
        self.block = block
        self._raw.readblocks(block, buf, offset)
        if self.others is None or block in self.others:
            return
        if self.hash is None:
            self.others.add(block)
        else:
            self.hash.update(struct.pack("<II", block, offset))
            self.hash.update(buf)

    def writeblocks(self, block, buf, offset=0):
        raise OSError(EIO, "unexpected write to the flash: restart")

    def ioctl(self, op, arg):
        if op == 6:
            raise OSError(EIO, "unexpected write to the flash: restart")
        return self._raw.ioctl(op, arg) if op in (4, 5) else 0


class Finder:
    """A littlefs of our own on `raw`, as it is now: of no use when something was changed."""

    def __init__(self, raw):
        try:
            from vfs import VfsLfs2
        except ImportError:
            from os import VfsLfs2  # MicroPython 1.22
        self._tracer = ReadTracer(raw)
        self._size = raw.ioctl(5, 0)
        try:
            self._fs = VfsLfs2(self._tracer, readsize=256)  # by default 32, which takes four times the calls
        except OSError as e:
            if e.errno == EIO:
                raise
            raise OSError(ENODEV, "no littlefs on this device")

    def block(self, path):
        """The block of the file at `path`, -1 if it is not of exactly one block."""
        try:
            f = self._fs.open(path, "rb")
        except OSError as e:
            if e.errno != ENOENT:
                raise
            raise OSError(ENODEV, "the file system is not on this device")
        with f:
            if f.seek(0, 2) != self._size:
                return -1
            f.seek(0)
            self._tracer.block = -1
            f.read(1)
            return self._tracer.block

    def hash_of(self, folder):
        """A SHA-256 of all that `folder` says of our files, which goes on; None if there is no such folder."""
        tracer = self._tracer
        tracer.others = set()
        try:
            self._fs.stat(folder)  # reads what leads there
            tracer.hash = sha256(b"")
            self._fs.stat(folder + "/~")  # is behind all names of ours
        except OSError as e:
            if e.errno != ENOENT:
                raise
        found, tracer.others, tracer.hash = tracer.hash, None, None
        return found if folder.strip("/") else None  # nothing leads to the root


def pin(raw, folder, root, n):
    """Finds the pinned files in `folder`, or makes n of them; makes those that are missing. Returns their blocks, and
    how many of a set that was there had to be made."""
    path = root + folder.rstrip("/") + ".sum"
    try:
        os.remove(path + ".part")  # before it removes anything littlefs ends a move that a power cut has left
    except OSError:
        pass
    blocks = _kept(path, Finder(raw).hash_of(folder))
    if blocks:
        return blocks, 0
    new = folder + ".new"
    _remove_folder(root + new)
    finder = Finder(raw)
    try:
        names = os.listdir(root + folder)
    except OSError as e:
        if e.errno != ENOENT:
            raise
        names = None
    if names is None:
        if not n:
            raise OSError(ENOENT, "no folder " + root + folder)
        try:
            os.mkdir(root + new)
        except OSError as e:
            if e.errno == EEXIST:
                raise OSError(EEXIST, "%s is in the way of the journal: rename it" % (root + new))
            raise
        blocks = array("i", [-1] * n)
        try:
            _make(raw, new, root, blocks)
            os.rename(root + new, root + folder)
        except OSError:
            _remove_folder(root + new)
            raise
        return blocks, 0
    found, removed = _find(finder, names, folder, root)
    blocks = found or array("i", [-1] * n)
    missing = sum(1 for block in blocks if block < 0)
    if missing:
        _make(raw, folder, root, blocks)
    elif found and not removed and (digest := finder.hash_of(folder)):
        digest.update(bytes(blocks))
        try:
            with open(path, "wb") as f:
                f.write(digest.digest()[:_DIGEST] + bytes(blocks))
        except OSError:
            pass  # the file system is full: the next start looks for each file, too
    return blocks, missing


def grow(flash, journal, n):
    """PinnedFlash.grow()."""
    from ..errors import OutboxFull
    from ..journal.copying import copy_journal

    raw, folder, root, size = flash._raw, flash._folder, flash._root, flash._size
    # Without space each start would write all that is free. Names take some, too.
    if os.statvfs(root or "/")[3] < n + 4 + n * _OF_A_NAME // size:
        return flash, journal
    blocks = array("i", [-1] * n)
    grown = []

    def fill():
        larger = PinnedFlash(raw, folder, n, root, flash.page, blocks)
        larger.repaired = flash.repaired
        grown.append(larger)
        grown.append(copy_journal(journal, larger))

    try:
        _make(raw, folder, root, blocks, fill)
    except (OutboxFull, ValueError, MemoryError):
        return flash, journal
    except OSError as e:
        if e.errno != _ENOSPC:
            raise
        return flash, journal
    _remove_others(os.listdir(root + folder), folder, root, n)
    return grown


# --- names ---


def _name(slot, n, block, mtime):
    text = "%02x%02x-%x-%x" % (slot, n, block, mtime)
    return "%s-%04x" % (text, crc32(text.encode()) & 0xFFFF)


def _parse_name(name):
    # Slot, n, block and time; None if it is no pinned file.
    try:
        head, block, mtime, _ = name.split("-")
        claim = int(head[:2], 16), int(head[2:], 16), int(block, 16), int(mtime, 16)
    except ValueError:
        return None
    return claim if claim[0] < claim[1] and _name(*claim) == name else None


def _is_new(name):
    return len(name) == 6 and name[2:] == ".new"


def _mtime(path):
    # Seconds from 1970 to the last change, modulo 2**32; 0 if the file system keeps no times. A port
    # that counts from 2000 tells 0 of those too: that very second stands for none.
    seconds = os.stat(path)[8]
    if time.gmtime(0)[0] == 2000:
        seconds += _2000
    seconds &= 0xFFFFFFFF
    return seconds if seconds != _2000 else 0


# --- files ---


def _find(finder, names, folder, root):
    # Returns the blocks of the files that are where their names say, -1 of those that are missing; None if there is
    # none of ours; and True if it removed what else is ours: files that were changed, and what growing has left.
    sets = {}
    spoilt = []
    changed = False
    for name in names:
        path = "%s/%s" % (folder, name)
        claim = _parse_name(name)
        if claim:
            slot, n, block, mtime = claim
            if n not in sets:
                sets[n] = array("i", [-1] * n)
            if finder.block(path) == block and _mtime(root + path) == mtime:
                sets[n][slot] = block
                continue
            changed = True
        if claim or _is_new(name):
            spoilt.append(root + path)
    if not sets:
        n = 0
    elif len(sets) == 1:
        (n,) = sets
    else:
        n = max([n for n in sets if min(sets[n]) >= 0], default=0)
        if changed or not n or len(sets) > 2:
            raise ValueError(
                "%s has pinned files of sets of %s: delete those of all journals but one, with their messages"
                % (root + folder, " and ".join(str(n) for n in sorted(sets)))
            )
    for path in spoilt:
        os.remove(path)
    if len(sets) > 1:
        _remove_others(names, folder, root, n)
    return sets.get(n), len(sets) > 1 or len(spoilt) > 0


def _remove_others(names, folder, root, n):
    # The files of the set that is not of n files.
    for name in names:
        claim = _parse_name(name)
        if claim and claim[1] != n:
            os.remove("%s/%s" % (root + folder, name))


def _make(raw, folder, root, blocks, fill=None):
    # Makes the files whose block is -1, or none of them. fill: called as soon as the blocks are known, before the files
    # count.
    size = raw.ioctl(5, 0)
    blank = b"\xff" * _CHUNK
    made = {slot: "%s/%02x.new" % (folder, slot) for slot in range(len(blocks)) if blocks[slot] < 0}
    try:
        for path in made.values():
            with open(root + path, "wb") as f:
                for _ in range(size // _CHUNK):
                    f.write(blank)
        finder = Finder(raw)
        for slot, path in made.items():
            blocks[slot] = finder.block(path)
            if blocks[slot] < 0:
                raise OSError(EIO, "%s is not in one block of flash: restart" % path)
        if fill:
            fill()
        for slot, path in made.items():
            made[slot] = "%s/%s" % (folder, _name(slot, len(blocks), blocks[slot], _mtime(root + path)))
            os.rename(root + path, root + made[slot])
    except Exception as e:
        for path in made.values():
            _remove(root + path)
        if isinstance(e, OSError) and e.errno == _ENOSPC:
            raise OSError(_ENOSPC, "the journal needs %d KiB of free space" % ((len(made) + 4) * size >> 10))
        raise


def _kept(path, digest):
    # The blocks that the file at `path` keeps; None if they have to be looked for.
    try:
        with open(path, "rb") as f:
            right = f.read(_DIGEST)
            blocks = f.read(4 * _MOST)
    except OSError:
        return None
    if not digest:
        return None
    digest.update(blocks)
    return array("i", blocks) if digest.digest()[:_DIGEST] == right else None


def _remove(path):
    try:
        os.remove(path)
    except OSError as e:
        if e.errno != ENOENT:
            raise


def _remove_folder(path):
    # What was made in a folder that was not finished. A folder with other files stays.
    try:
        for name in os.listdir(path):
            if _parse_name(name) or _is_new(name):
                os.remove("%s/%s" % (path, name))
        os.rmdir(path)
    except OSError:
        pass
