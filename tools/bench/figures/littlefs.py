"""The flash wear of simple journals made of files on littlefs."""

from littlefs import LittleFS, UserContext

BLOCK = 4096
_BLOCKS = 256
_WINDOW = 8  # messages in flight
_LOG = 64 * 1024  # size at which a new log begins


class Counting(UserContext):
    """Flash in RAM that counts what is programmed and erased."""

    programs = programmed = erases = 0

    def prog(self, cfg, block, off, data):
        self.programs += 1
        self.programmed += len(data)
        return super().prog(cfg, block, off, data)

    def erase(self, cfg, block):
        self.erases += 1
        return super().erase(cfg, block)


def _file_each(fs, i, message):
    """A file for each message, removed after its acknowledgement."""
    with fs.open(f"/m/{i}", "wb") as file:
        file.write(message)
    if i >= _WINDOW:
        fs.remove(f"/m/{i - _WINDOW}")


def _log(fs, i, message):
    """A log: a line for each message, and one for its acknowledgement."""
    for line in (message, b"acknowledged %d" % i):
        begin = not i or fs.stat("/m/log").size >= _LOG
        with fs.open("/m/log", "wb" if begin and line is message else "ab") as file:
            file.write(line)


def _table(fs, i, message):
    """One file of all unacknowledged messages, written under another name and renamed at each change."""
    waiting = min(i, _WINDOW)
    for count in (waiting + 1, waiting):
        with fs.open("/m/new", "wb") as file:
            file.write(message * count)
        fs.rename("/m/new", "/m/table")


STRATEGIES = {"a file per message": _file_each, "a log, appended": _log, "a table, renamed": _table}
PROGRAM = {"bytes": 32, "pages": 256}  # prog_size with which MicroPython mounts littlefs: ESP32, RP2040


def measure(strategy, kind, size, n):
    """{programs, programmed, erases} per message, for n messages of `size` bytes."""
    flash = Counting(BLOCK * _BLOCKS)
    unit = PROGRAM[kind]
    fs = LittleFS(
        context=flash,
        block_size=BLOCK,
        block_count=_BLOCKS,
        read_size=32,
        prog_size=unit,
        cache_size=4 * unit,
        lookahead_size=32,
        block_cycles=100,
    )
    fs.mkdir("/m")
    flash.programs = flash.programmed = flash.erases = 0
    for i in range(n):
        STRATEGIES[strategy](fs, i, b"x" * size)
    return {name: getattr(flash, name) / n for name in ("programs", "programmed", "erases")}
