"""A fake ESP32 in its ROM bootloader, on a pseudo terminal: esptool's serial protocol.

Its flash is NOR: programming clears bits, erasing sets them, 4 KiB at a time."""

import hashlib
import os
import pty
import select
import struct
import threading
import zlib

_END, _ESC = b"\xc0", b"\xdb"
_UNKNOWN = b"\x01\x05"
_MAGIC_REG = 0x4000_1000
# chip: (magic number in memory, which identifies older chips; chip id, for newer ones; register with the flash id)
_CHIPS = {
    "esp32": (0x00F0_1D83, None, 0x3FF4_2080),
    "esp32s2": (0x0000_07C6, None, 0x3F40_2058),
    "esp32c3": (0, 5, 0x6000_2058),
    "esp32s3": (0, 9, 0x6000_2058),
    "esp32c6": (0, 13, 0x6000_3058),
}


class EspRom:
    """A context manager. `port`: the terminal's name. `flash`: its content. `erased`: the sectors that were erased."""

    def __init__(self, chip="esp32", flash_mb=4):
        self.flash = bytearray(b"\xff") * (flash_mb << 20)
        self.erased = []
        self.unplugged_after = None  # so many FLASH_DEFL_DATA commands
        magic, self._identity, spi_w0 = _CHIPS[chip]
        size_id = len(self.flash).bit_length() - 1
        self._registers = {_MAGIC_REG: magic, spi_w0: size_id << 16 | 0x4020}
        self._stub = False
        self._reading = None
        self._inflater = None

    def __enter__(self):
        self._master, self._slave = pty.openpty()
        self._ended, self._end = os.pipe()
        self.port = os.ttyname(self._slave)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc):
        # Who was refused may keep the terminal open: the thread does not wait for the other end.
        os.close(self._end)
        self._thread.join(240)
        os.close(self._ended)
        os.close(self._slave)
        if self._master is not None:
            os.close(self._master)

    # --- the wire: SLIP frames ---

    def _serve(self):
        waiting = b""
        while self._master is not None:
            readable = select.select([self._master, self._ended], [], [])[0]
            if self._master not in readable:
                return
            try:
                waiting += os.read(self._master, 65536)
            except OSError:  # the other end is closed
                return
            while waiting.count(_END) >= 2:
                _, frame, waiting = waiting.split(_END, 2)
                if frame:
                    self._frame(frame.replace(b"\xdb\xdc", _END).replace(b"\xdb\xdd", _ESC))
                else:
                    waiting = _END + waiting

    def _send(self, data):
        data = _END + data.replace(_ESC, b"\xdb\xdd").replace(_END, b"\xdb\xdc") + _END
        while data:
            data = data[os.write(self._master, data) :]

    def _answer(self, op, value=0, data=b"", status=b"\0\0"):
        data += status + (b"" if self._stub else b"\0\0")
        self._send(struct.pack("<BBHI", 1, op, len(data), value) + data)

    def _frame(self, frame):
        if self._reading:
            self._acknowledged(*struct.unpack("<I", frame))
            return
        _, op, size, _ = struct.unpack_from("<BBHI", frame)
        handler = getattr(self, f"_do_{op:02x}", None)
        if handler:
            handler(op, frame[8 : 8 + size])
        else:
            self._answer(op, status=_UNKNOWN)

    # --- commands ---

    def _do_08(self, op, data):  # SYNC
        for _ in range(8):
            self._answer(op)

    def _do_0a(self, op, data):  # READ_REG
        self._answer(op, self._registers.get(struct.unpack("<I", data)[0], 0))

    def _agree(self, op, data):
        self._answer(op)

    _do_05 = _do_07 = _do_09 = _do_0b = _do_0d = _do_0f = _agree  # MEM_BEGIN, MEM_DATA, WRITE_REG, SPI_*, BAUD

    def _do_06(self, op, data):  # MEM_END: the loaded stub starts
        self._answer(op)
        self._stub = True
        self._send(b"OHAI")

    def _do_10(self, op, data):  # FLASH_DEFL_BEGIN
        size, _, _, self._at = struct.unpack_from("<4I", data)
        self._erase(self._at, size)
        self._inflater = zlib.decompressobj()
        self._answer(op)

    def _do_11(self, op, data):  # FLASH_DEFL_DATA
        if self.unplugged_after == 0:
            os.close(self._master)
            self._master = None
            return
        if self.unplugged_after:
            self.unplugged_after -= 1
        content = self._inflater.decompress(data[16:])
        old = self.flash[self._at : self._at + len(content)]
        self.flash[self._at : self._at + len(content)] = bytes(a & b for a, b in zip(old, content, strict=True))
        self._at += len(content)
        self._answer(op)

    _do_12 = _agree  # FLASH_DEFL_END

    def _do_14(self, op, data):  # GET_SECURITY_INFO
        if self._identity is None:
            self._answer(op, status=_UNKNOWN)
        else:
            self._answer(op, data=struct.pack("<I8xII", 0, self._identity, 0))

    def _do_13(self, op, data):  # SPI_FLASH_MD5
        at, size = struct.unpack_from("<2I", data)
        self._answer(op, data=hashlib.md5(self.flash[at : at + size]).digest())

    def _do_d0(self, op, data):  # ERASE_FLASH
        self._erase(0, len(self.flash))
        self._answer(op)

    def _do_d2(self, op, data):  # READ_FLASH
        at, size, self._block, _ = struct.unpack("<4I", data)
        self._reading = bytes(self.flash[at : at + size])
        self._answer(op)
        self._send(self._reading[: self._block])

    def _acknowledged(self, got):
        if got < len(self._reading):
            self._send(self._reading[got : got + self._block])
        else:
            digest, self._reading = hashlib.md5(self._reading).digest(), None
            self._send(digest)

    def _erase(self, at, size):
        first, last = at // 4096, (at + size + 4095) // 4096
        self.erased += range(first, last)
        self.flash[first * 4096 : last * 4096] = b"\xff" * ((last - first) * 4096)
