"""A littlefs in the format that MicroPython creates and mounts."""

import itertools

from littlefs import LittleFS, LittleFSError, UserContext

BLOCK = 4096
_READ = 32
_VERSION = 0x0002_0000  # the on-disk format 2.0: every MicroPython reads it, older ones read no other


class _Watched(UserContext):
    """Flash that records which blocks were read."""

    def __init__(self, size):
        super().__init__(buffer=bytearray(b"\xff") * size)
        self.seen = set()

    def read(self, cfg, block, off, size):
        self.seen.add(block)
        return super().read(cfg, block, off, size)


def build(files, size, prog):
    """A file system of `size` bytes, programmed `prog` bytes at a time, with `files`, {absolute path: content}. Returns
    its parts, [(offset, content), ...]; the flash between them may have any content. ValueError if it does not fit."""
    flash = _Watched(size)
    fs = LittleFS(
        flash,
        mount=False,
        block_size=BLOCK,
        block_count=size // BLOCK,
        read_size=_READ,
        prog_size=prog,
        cache_size=4 * max(_READ, prog),
        lookahead_size=32,
        block_cycles=100,
        disk_version=_VERSION,
    )
    try:
        fs.format()
        fs.mount()
        _write(fs, files)
        fs.unmount()
    except LittleFSError as e:
        if e.code != LittleFSError.Error.LFS_ERR_NOSPC:
            raise
        total = -(-sum(map(len, files.values())) // 1024)
        raise ValueError(f"the application, {total} KiB, does not fit the file system, {size // 1024} KiB") from None
    # Includes the blank halves of directories: a half left by an older file system could pass for the newer one.
    # Reading the whole file system reads exactly these blocks.
    flash.seen.clear()
    fs.mount()
    for path, content in files.items():
        with fs.open(path, "rb") as file:
            if file.read() != content:
                raise RuntimeError(f"{path} was not written")
    fs.unmount()
    return list(_runs(flash))


def _runs(flash):
    """(offset, content) of each run of blocks that were read."""
    for seen, run in itertools.groupby(range(len(flash.buffer) // BLOCK), flash.seen.__contains__):
        if seen:
            blocks = list(run)
            yield blocks[0] * BLOCK, bytes(flash.buffer[blocks[0] * BLOCK : (blocks[-1] + 1) * BLOCK])


class _Read(UserContext):
    """Read-only flash; `read_block(number)` reads each block once."""

    def __init__(self, read_block):
        self._read_block, self._blocks = read_block, {}
        self.problem = None  # the exception of the first failed read; littlefs would only print it

    def read(self, cfg, block, off, size):
        try:
            if block not in self._blocks:
                self._blocks[block] = self._read_block(block)
        except BaseException as e:
            self.problem = self.problem or e
            return bytearray(size)
        return bytearray(self._blocks[block][off : off + size])

    def prog(self, cfg, block, off, data):
        raise PermissionError

    def erase(self, cfg, block):
        raise PermissionError


def names(read_block):
    """The names at the root of the file system whose blocks `read_block(number)` reads; none if there is no file
    system. Raises the exceptions of `read_block`."""
    flash = _Read(read_block)
    fs = LittleFS(
        flash,
        mount=False,
        block_size=BLOCK,
        block_count=0,  # as the file system says
        read_size=_READ,
        prog_size=_READ,
        cache_size=4 * _READ,
        lookahead_size=32,
    )
    try:
        fs.mount()
        found = fs.listdir("/")
    except LittleFSError:
        found = []
    if flash.problem:
        raise flash.problem
    return found


def _write(fs, files):
    # Files of up to 512 bytes are kept in their folders. Each file that comes later may split a folder, in two halves
    # that are never joined again: where small files come last, there are fewer folders' blocks (131 instead of 141).
    # An image is opened for each module, and littlefs looks for a file from the end of its folder on.
    for path, content in sorted(files.items(), key=lambda one: (one[0].endswith(".image"), -len(one[1]), one[0])):
        fs.makedirs(path.rpartition("/")[0] or "/", exist_ok=True)
        with fs.open(path, "wb") as file:
            file.write(content)
