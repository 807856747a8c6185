# The CA's certificate, uploaded as PEM or DER, becomes a DER file: the only form that all boards read.

import os
from binascii import a2b_base64

from inflight.compat import const

_MOST = const(8_192)  # bytes of the certificate
_LINE = const(128)
_BEGIN = b"-----BEGIN CERTIFICATE-----"
_END = b"-----END CERTIFICATE-----"
_WRONG = "the CA's file: choose one certificate, PEM or DER"


class Upload:
    """Takes the pieces of the file, then close(): both raise ValueError, OSError. The certificate is at `path` when
    keep() has returned: a form that ends with an error brings none."""

    def __init__(self, path):
        self._path = path
        self._file = open(path + ".part", "wb")
        self._size = 0
        self._head = b""  # of the certificate
        self._pem = None  # whether it is PEM
        self._line = b""
        self._encoded = None  # base64 without its bytes; None outside the block
        self._blocks = 0

    def write(self, data):
        if self._pem is None and data:
            self._pem = data[0] != 0x30
        if not self._pem:
            self._put(data)
            return
        for piece in data.replace(b"\r", b"\n").split(b"\n")[:-1]:
            self._end_line(self._line + piece)
            self._line = b""
            data = data[len(piece) + 1 :]
        self._line = (self._line + data)[-_LINE:]

    def _end_line(self, line):
        line = line.strip()
        if line == _BEGIN:
            self._encoded = b""
            self._blocks += 1
        elif line == _END:
            if self._encoded:
                raise ValueError(_WRONG)
            self._encoded = None
        elif self._encoded is not None:
            line = self._encoded + line
            n = len(line) & ~3
            try:
                data = a2b_base64(line[:n])
            except Exception:  # not all interpreters raise a ValueError
                raise ValueError(_WRONG)
            self._put(data)
            self._encoded = line[n:]

    def _put(self, data):
        self._size += len(data)
        if self._size > _MOST or self._blocks > 1:
            raise ValueError(_WRONG)
        if len(self._head) < 4:
            self._head = (self._head + data)[:4]
        self._file.write(data)

    def close(self):
        if self._pem:
            self._end_line(self._line)
        self._file.close()
        if self._size != _der_size(self._head) or self._encoded is not None:
            raise ValueError(_WRONG)

    def keep(self):
        """The form is complete. Raises OSError."""
        os.rename(self._path + ".part", self._path)

    def discard(self):
        """The form failed: what came is of no use."""
        self._file.close()
        os.remove(self._path + ".part")


def _der_size(head):
    # The size of an ASN.1 sequence that begins with these 4 bytes; None if none does.
    if len(head) < 4 or head[0] != 0x30:
        return None
    if head[1] == 0x82:
        return 4 + (head[2] << 8 | head[3])
    return 3 + head[2] if head[1] == 0x81 else None  # no certificate is shorter
