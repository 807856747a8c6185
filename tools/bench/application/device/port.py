# What boards/rp2040 and boards/esp32 use of their ports, for the application on the unix port. The flash is a file; its
# pages are outside of the heap, as on a board. The radio has joined at once, and sockets are those of this machine.

import sys

import ffi
import uctypes
import vfs
from micropython import const

_BLOCK = const(4096)
_PRIVATE = const(2)  # what is written does not reach the file
_READ_WRITE = const(3)


class _Flash:
    """The file at `path` as a block device."""

    def __init__(self, path):
        # A short text of its own would be a name, which the board has not.
        number, pointer, lseek, of_lseek, mmap, of_mmap, of_open = "i p lseek iii mmap piiiii si".split()
        libc = ffi.open(None)
        file = libc.func(number, "open", of_open)(path, 0)
        size = libc.func(number, lseek, of_lseek)(file, 0, 2)
        at = libc.func(pointer, mmap, of_mmap)(0, size, _READ_WRITE, _PRIVATE, file, 0)
        self._bytes = memoryview(uctypes.bytearray_at(at, size))
        self._size = size

    def readblocks(self, block, buf, offset=0):
        at = block * _BLOCK + offset
        buf[:] = self._bytes[at : at + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        at = block * _BLOCK + offset
        for i in range(len(buf)):  # a program only clears bits
            self._bytes[at + i] &= buf[i]

    def ioctl(self, op, argument):
        if op == 4:
            return self._size // _BLOCK
        if op == 5:
            return _BLOCK
        if op == 6:
            self._bytes[argument * _BLOCK : (argument + 1) * _BLOCK] = b"\xff" * _BLOCK
        return 0

    def info(self):  # of a partition
        return 0, 0, 0, self._size, "vfs", False


class Partition:
    TYPE_DATA = 1
    _flash = None

    @classmethod
    def find(cls, kind, **given):
        return [cls._flash] if given["label"] == "vfs" else []


class _Module:
    """Stands for a module that this port does not have."""

    def __init__(self, **names):
        for name in names:
            setattr(self, name, names[name])


class WLAN:
    PM_NONE = PM_PERFORMANCE = 0
    _online = 0

    def __init__(self, interface):
        pass

    def active(self, on=None):
        return True

    def status(self, what=None):
        return -60 if what else self._online

    def ifconfig(self, address=None):
        pass

    def isconnected(self):
        return self._online in (3, 1010)

    def config(self, what=None, **given):
        return b"\x28\xcd\xc1\x12\x34\x56" if what == "mac" else 6

    def connect(self, ssid, key, **given):
        WLAN._online = self._joined

    def disconnect(self):
        pass

    deinit = disconnect


class _Part:
    """Stands for each other part of the chip: a pin, an ADC, a timer, the RTC, the watchdog, the registers."""

    CORE_TEMP = 4
    ATTN_11DB = 3
    IN = OUT = 0
    PERIODIC = 1
    _fed = None  # called when the watchdog is fed
    _kept = b""

    def __init__(self, *how, **more):
        pass

    def __call__(self, level=None):
        return 0

    value = atten = datetime = __call__

    def __getitem__(self, at):
        return 0

    def __setitem__(self, at, value):
        pass

    def read_u16(self):
        return 1000

    read_uv = read_u16

    def memory(self, data=None):
        if data is None:
            return _Part._kept
        _Part._kept = data

    def feed(self):
        _Part._fed()


def start(path, esp32, callback):
    """The file at `path` is the flash that is mounted, of an ESP32 or of a Pico W. callback() is called when the
    watchdog is fed."""
    flash = _Flash(path)
    Partition._flash = flash
    _Part._fed = callback
    WLAN._joined = 1010 if esp32 else 3
    WLAN._online = 1000 if esp32 else 0
    sys.modules["machine"] = sys.modules["umachine"] = _Module(
        mem32=_Part(),
        unique_id=lambda: b"\x28\xcd\xc1\x12\x34\x56",
        reset_cause=lambda: 1,
        PWRON_RESET=1,
        **{name: _Part for name in ("RTC", "ADC", "Pin", "Timer", "WDT")},
        disable_irq=lambda: 0,
        enable_irq=lambda state: None,
    )
    sys.modules["network"] = _Module(
        WLAN=WLAN, STA_IF=0, hostname=lambda name: None, ipconfig=lambda **given: None, country=lambda code: None
    )
    sys.modules["rp2"] = _Module(Flash=lambda: flash)
    sys.modules["esp32"] = _Module(Partition=Partition, mcu_temperature=lambda: 20)
    vfs.umount("/")
    vfs.mount(vfs.VfsLfs2(flash, progsize=256), "/")
